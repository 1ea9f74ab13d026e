package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// bodyTimeout is how long a body that nobody wants is waited for.
const bodyTimeout = time.Second

// ServeHTTP answers one request: who is it, may they, what is it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// All that is asked for stands in the URL. A body that does not come would hold the
	// connection until it had.
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		sendOff(w, http.StatusBadRequest, "a request to a node has no body")
		return
	}
	r.Body = http.NoBody
	asked := routeOf(r.Method, r.URL.Path)
	u, err := s.authn.authenticate(r)
	if u == nil {
		s.o.Log.Debug("client of the kubelet's API not authenticated", "client", r.RemoteAddr, "err", err)
		sendOff(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	if !s.authorize(w, r, u, asked) {
		return
	}
	if !admitted(r.Context()) {
		tooMany(w)
		return
	}
	switch {
	case asked.kind == kindUnknown:
		refuse(w, http.StatusNotFound, "404: Page Not Found")
	case !slices.Contains(asked.allowed, r.Method):
		refuse(w, http.StatusMethodNotAllowed, "405: Method Not Allowed")
	default:
		s.answer(w, r, asked)
	}
}

// authorize answers who may not.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, u *user, asked route) bool {
	for _, subresource := range asked.subresources {
		allowed, err := s.authz.allowed(r.Context(), u, asked.verb, subresource)
		if err != nil {
			s.o.Log.Warn("client of the kubelet's API not authorized", "user", u.name, "err", err)
			sendOff(w, http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", u.name, asked.verb, subresource))
			return false
		}
		if allowed {
			return true
		}
	}
	sendOff(w, http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", u.name, asked.verb, asked.subresources))
	return false
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, asked route) {
	switch asked.kind {
	case kindHealth:
		refuse(w, http.StatusOK, "ok")
	case kindPods:
		s.pods(w)
	case kindStats:
		s.summary(w, r)
	case kindMetrics:
		s.metrics(w, r)
	case kindResourceMetrics:
		s.resourceMetrics(w, r)
	case kindContainerMetrics:
		s.containerMetrics(w, r)
	case kindProbeMetrics:
		s.probeMetrics(w)
	case kindLogs:
		s.stream(w, asked, func() { inPlace(w, s.readers, asked, func() { s.containerLogs(w, r, asked) }) })
	case kindExec:
		s.stream(w, asked, func() { s.exec(w, r, asked) })
	case kindAttach:
		s.stream(w, asked, func() { s.attach(w, r, asked) })
	case kindRun:
		s.stream(w, asked, func() { s.run(w, r, asked) })
	case kindPortForward:
		s.stream(w, asked, func() { s.portForward(w, r, asked) })
	}
}

// stream has one of the places of requests that may go on for long.
func (s *Server) stream(w http.ResponseWriter, asked route, serve func()) {
	inPlace(w, s.places, asked, serve)
}

func inPlace(w http.ResponseWriter, of *places, asked route, serve func()) {
	pod := asked.namespace + "/" + asked.pod
	if !of.take(pod) {
		tooMany(w)
		return
	}
	defer of.free(pod)
	serve()
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	sendOff(w, http.StatusTooManyRequests, ErrTooMany.Error())
}

// sendOff ends the connection, too: one that is kept would take the place of another.
func sendOff(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Connection", "close")
	refuse(w, code, text)
}

// refuse answers with one text.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}

// find answers where there is no such container; texts are those of the route.
func (s *Server) find(ctx context.Context, w http.ResponseWriter, asked route, noPod, noContainer string) (Container, bool) {
	c, err := s.o.Backend.Container(ctx, asked.namespace, asked.pod, asked.uid, asked.container)
	switch {
	case err == nil:
		return c, true
	case errors.Is(err, ErrPodNotFound):
		refuse(w, http.StatusNotFound, noPod)
	case errors.Is(err, ErrContainerNotFound):
		refuse(w, http.StatusNotFound, noContainer)
	default:
		s.o.Log.Warn("container not found out about", "namespace", asked.namespace, "pod", asked.pod, "err", err)
		refuse(w, http.StatusInternalServerError, err.Error())
	}
	return Container{}, false
}
