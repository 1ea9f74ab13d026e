package workload

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

const (
	// authenticationConfig is where every API server publishes by whom it knows its
	// clients, for servers that stand behind it.
	authenticationConfig = "extension-apiserver-authentication"
	clientCAKey          = "client-ca-file"

	// clientCAInterval is how often it is read: authorities are replaced in days.
	clientCAInterval = time.Minute
)

// ClientCA are the authorities that clients of the API server prove themselves by, the
// API server itself towards kubelets included. A node may not read them for itself.
type ClientCA struct {
	// Reader reads uncached.
	Reader client.Reader
	// Tick tells when to read again. Default: every minute.
	Tick <-chan time.Time

	changed chan event.GenericEvent

	mu    sync.Mutex
	known bool
	pem   []byte
}

// NewClientCA returns the authorities that a reader shows.
func NewClientCA(reader client.Reader) *ClientCA {
	return &ClientCA{Reader: reader, changed: make(chan event.GenericEvent, 1)}
}

// Changed tells that PEM answers otherwise than before.
func (c *ClientCA) Changed() <-chan event.GenericEvent { return c.changed }

// PEM returns the authorities as Start has read them last, so that all who ask are told
// the same; the first who asks waits for them. Empty: the cluster publishes none. A manager
// that may not read them does not know that: Macs would be told twice, once without them.
func (c *ClientCA) PEM(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		return c.pem, nil
	}
	now, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	c.pem, c.known = now, true
	return now, nil
}

// Start reads them again and again until ctx ends. A read that fails changes nothing:
// no fleet is changed because of it. It runs where the manager leads: who does not lead
// tells Macs nothing.
func (c *ClientCA) Start(ctx context.Context) error {
	tick := c.Tick
	if tick == nil {
		ticker := time.NewTicker(clientCAInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			c.refresh(ctx)
		}
	}
}

func (c *ClientCA) refresh(ctx context.Context) {
	now, err := c.read(ctx)
	log := ctrl.LoggerFrom(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		log.Error(err, "The authorities of the API server's clients could not be read again")
		return
	case c.known && bytes.Equal(now, c.pem):
		return
	case c.known && len(now) == 0:
		// Taken back, or no longer to be read: Macs keep what they have.
		return
	}
	c.pem, c.known = now, true
	log.Info("The API server's clients are known by other authorities now; Macs are told with their next update")
	select {
	case c.changed <- event.GenericEvent{Object: &corev1.ConfigMap{}}:
	default: // it was not seen yet, and says the same
	}
}

// read returns what is published.
func (c *ClientCA) read(ctx context.Context) ([]byte, error) {
	published := &corev1.ConfigMap{}
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: authenticationConfig}, published)
	switch {
	case apierrors.IsNotFound(err):
		ctrl.LoggerFrom(ctx).V(1).Info("Macs will know the API server's clients by their tokens alone", "why", err.Error())
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading kube-system/%s: %w", authenticationConfig, err)
	}
	return certificates([]byte(published.Data[clientCAKey])), nil
}

// certificates are the certificates in a text, and nothing else of it.
func certificates(text []byte) []byte {
	var out []byte
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return out
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type == "CERTIFICATE" && err == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
		text = rest
	}
}
