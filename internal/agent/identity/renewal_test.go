package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// certificateNumbered is one that the server can tell from others.
func certificateNumbered(t *testing.T, n int64) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: "system:node:mac-1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// busyServer answers /watch for as long as the connection lives, /slow when it is
// released, and everything else at once, with the number of the asker's certificate.
type busyServer struct {
	*httptest.Server
	release chan struct{}
	slow    chan struct{}
}

func newBusyServer(t *testing.T) *busyServer {
	t.Helper()
	s := &busyServer{release: make(chan struct{}), slow: make(chan struct{}, 1)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := r.TLS.PeerCertificates[0].SerialNumber.String()
		switch r.URL.Path {
		case "/watch":
			_, _ = io.WriteString(w, number)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		case "/slow":
			s.slow <- struct{}{}
			<-s.release
		}
		_, _ = io.WriteString(w, number)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// A certificate is renewed once in a while, under load. No request may fail of that,
// neither those under way nor those that begin in that moment; what goes on for ever is
// ended, so that it begins again with the new certificate.
func TestNoRequestFailsOfARenewal(t *testing.T) {
	s := newBusyServer(t)
	var current atomic.Pointer[tls.Certificate]
	current.Store(certificateNumbered(t, 1))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config, connections, err := endpoint{Server: s.URL, CA: ca}.config(current.Load)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: config.Transport}
	get := func(path string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}

	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var done atomic.Int64
	for range 8 {
		load.Go(func() {
			for ctx.Err() == nil {
				if _, err := get("/"); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				done.Add(1)
			}
		})
	}
	watched, slow := make(chan string, 1), make(chan string, 1)
	watch, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	watching, err := client.Do(watch) // which the server answers at once
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer watching.Body.Close()
		body, _ := io.ReadAll(watching.Body) // ends with an error: its connection is closed
		watched <- string(body)
	}()
	go func() {
		body, err := get("/slow")
		if err != nil {
			t.Errorf("the request under way failed: %v", err)
		}
		slow <- body
	}()
	<-s.slow
	for n := int64(2); n <= 6; n++ {
		current.Store(certificateNumbered(t, n))
		connections.move(time.Hour)
		for before := done.Load(); done.Load() < before+50 && !t.Failed(); {
			if _, err := get("/"); err != nil {
				t.Fatalf("a request failed: %v", err)
			}
		}
	}
	if number, err := get("/"); err != nil || number != "6" {
		t.Errorf("the server sees certificate %s after the renewals, want 6: %v", number, err)
	}
	close(s.release)
	if number := <-slow; number != "1" {
		t.Errorf("the request under way had certificate %s", number)
	}
	select {
	case <-watched:
		t.Error("a watch ended before its time")
	default:
	}
	connections.mu.Lock()
	for old := range connections.former { // as after the hour
		go connections.drop(old)
	}
	connections.mu.Unlock()
	select {
	case number := <-watched:
		if number != "1" {
			t.Errorf("the watch had certificate %s", number)
		}
	case <-time.After(time.Minute):
		t.Error("a watch goes on with a certificate of before")
	}
	cancel()
	load.Wait()
}

// After a silent network every connection may be dead, also those of before.
func TestCloseAllEndsEverything(t *testing.T) {
	s := newBusyServer(t)
	own := certificateNumbered(t, 1)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config, connections, err := endpoint{Server: s.URL, CA: ca}.config(func() *tls.Certificate { return own })
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: config.Transport}
	var watches sync.WaitGroup
	for range 2 {
		response, err := client.Get(s.URL + "/watch")
		if err != nil {
			t.Fatal(err)
		}
		watches.Go(func() {
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err == nil || strings.Contains(err.Error(), "context") {
				t.Errorf("a watch ended by itself: %v", err)
			}
		})
		connections.move(time.Hour)
	}
	connections.closeAll()
	ended := make(chan struct{})
	go func() {
		watches.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("watches go on")
	}
	if response, err := client.Get(s.URL + "/"); err != nil {
		t.Errorf("no request works any more: %v", err)
	} else {
		_ = response.Body.Close()
	}
}
