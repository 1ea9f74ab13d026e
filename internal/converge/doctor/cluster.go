package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func certificate(_ context.Context, x *exam) Finding {
	data, err := x.read(document.AgentCertFile)
	if absent(err) {
		return none("this Mac has no certificate of a node")
	}
	if err != nil {
		return unseen(err)
	}
	return judgeCertificate(data, time.Now())
}

// judgeCertificate reads the first certificate of a PEM file; the key beside it is
// not looked at.
func judgeCertificate(data []byte, now time.Time) Finding {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return unknown("%s holds no certificate", document.AgentCertFile)
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return unknown("the certificate cannot be read")
		}
		seen := fmt.Sprintf("%s, from %s to %s", cert.Subject.CommonName, cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339))
		if now.After(cert.NotAfter) || now.Before(cert.NotBefore) {
			return problem(seen,
				"the cluster does not know this Mac any more", "check the clock; the manager delivers a new token once the Node has been silent for ten minutes")
		}
		return well("%s", seen)
	}
}

func apiServer(ctx context.Context, x *exam) Finding {
	data, err := x.read(document.AgentServerFile)
	if absent(err) {
		return none("this Mac has not joined a cluster")
	}
	if err != nil {
		return unseen(err)
	}
	var server struct {
		Server string `json:"server"`
		CA     []byte `json:"ca"`
	}
	if err := json.Unmarshal(data, &server); err != nil {
		return unknown("%s cannot be read", document.AgentServerFile)
	}
	if err := greet(ctx, server.Server, server.CA); err != nil {
		return problem(fmt.Sprintf("%s: %v", server.Server, err),
			"the Node goes NotReady", "check this Mac's network and the API server's address and authority")
	}
	return well("%s answers, and its authority is the one that was delivered", server.Server)
}

// greet shakes hands with the server, and hangs up.
func greet(ctx context.Context, server string, authority []byte) error {
	at, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("it is no URL")
	}
	host := at.Host
	if at.Port() == "" {
		host = net.JoinHostPort(at.Hostname(), "443")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return fmt.Errorf("no authority was delivered with it")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return conn.Close()
}

func boots(ctx context.Context, x *exam) Finding {
	id, err := x.Mac.Host.BootSession(ctx)
	if err != nil {
		return unseen(err)
	}
	since, err := x.output(ctx, "/usr/sbin/sysctl", "-n", "kern.boottime")
	if err != nil {
		return well("boot session %s", id)
	}
	return well("boot session %s, since %s", id, since)
}

func lastReport(_ context.Context, x *exam) Finding {
	data, err := x.read(document.ReportFile)
	if absent(err) {
		return none("converge has not run here")
	}
	if err != nil {
		return unseen(err)
	}
	r, err := document.DecodeReport(data)
	if err != nil {
		return unknown("%s cannot be read: %v", document.ReportFile, err)
	}
	when := r.Finished.UTC().Format(time.RFC3339)
	if s, failed := r.FailedStep(); failed {
		return judgeFailed(r.Verb, when, s)
	}
	return well("%s of %s ended well", r.Verb, when)
}

// judgeFailed says what a run that did not end well means. What was only put off, or
// may go well the next time, is nothing that a person mends.
func judgeFailed(verb, when string, s document.StepReport) Finding {
	switch s.Class {
	case document.Wait:
		return warning(fmt.Sprintf("%s of %s put off step %s: %s", verb, when, s.Name, s.Detail),
			"that is of that time: it waits for what is named, and the manager tries it again in its turn", "nothing; to have it sooner, end what it waits for")
	case document.Retry:
		return warning(fmt.Sprintf("%s of %s did not get past step %s: %s", verb, when, s.Name, s.Detail),
			"that is of that time: it may go well the next time, and the manager tries it again in its turn", "nothing, unless it stays")
	}
	return problem(fmt.Sprintf("%s of %s failed at step %s (%s): %s", verb, when, s.Name, s.Class, s.Detail),
		"what comes after that step is not as it should be", "mend what it names; the manager runs it again by itself")
}
