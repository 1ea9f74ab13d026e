package action

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// self is the name under which a request goes to the guest itself. An application that
// redirects to its own address under another name redirects to another host.
const self = "127.0.0.1"

// agentVersion is in the name of the client, as a kubelet has it.
const agentVersion = "1.36"

// Request is the GET that an action names. client is the kind of client that asks: probe,
// lifecycle.
func Request(ctx context.Context, a *corev1.HTTPGetAction, c *corev1.Container, client string) (*http.Request, error) {
	port, err := Port(a.Port, c)
	if err != nil {
		return nil, err
	}
	// A path that is none goes as it stands.
	u, err := url.Parse(a.Path)
	if err != nil {
		u = &url.URL{Path: a.Path}
	}
	u.Scheme = "http"
	if a.Scheme != "" {
		u.Scheme = strings.ToLower(string(a.Scheme))
	}
	host := a.Host
	if host == "" {
		host = self
	}
	u.Host = net.JoinHostPort(host, strconv.Itoa(port))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header = headers(a.HTTPHeaders, client)
	r.Host = r.Header.Get("Host")
	return r, nil
}

// headers are those of the action. An empty User-Agent or Accept asks for none.
func headers(list []corev1.HTTPHeader, client string) http.Header {
	h := http.Header{}
	for _, one := range list {
		h.Add(one.Name, one.Value)
	}
	if _, named := h["User-Agent"]; !named {
		h.Set("User-Agent", UserAgent(client))
	}
	switch value, named := h["Accept"]; {
	case !named:
		h.Set("Accept", "*/*")
	case value[0] == "":
		h.Del("Accept")
	}
	return h
}

// UserAgent names a kind of client as a kubelet's.
func UserAgent(client string) string { return "kube-" + client + "/" + agentVersion }

// Transport sends requests through the guest, each on a connection of its own. The
// server's certificate is not verified, as a kubelet does not either: nobody has one for
// the address of a Pod. Connections live as long as ctx.
func Transport(ctx context.Context, r Runner) *http.Transport {
	return &http.Transport{
		// The transport's own context outlasts the request.
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			host, port, err := target(address)
			if err != nil {
				return nil, err
			}
			return Dial(ctx, r, host, port)
		},
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, // see above
		DisableKeepAlives:  true,
		DisableCompression: true,
		ForceAttemptHTTP2:  true,

		MaxResponseHeaderBytes: MaxHeaders,
	}
}

// target takes the address of a request apart, as Runner wants it.
func target(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); err != nil {
		return "", 0, err
	}
	if host == self {
		host = ""
	}
	return host, port, nil
}

// OpenedFor is Opened for a request that Request made.
func OpenedFor(r *http.Request, guest Runner) (Runner, error) {
	host, port, err := target(r.URL.Host)
	if err != nil {
		return nil, err
	}
	return Opened(r.Context(), guest, host, port), nil
}

// Body reads the beginning of a response, as much as a kubelet does.
func Body(r *http.Response) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, MaxOutput))
	return string(b), err
}
