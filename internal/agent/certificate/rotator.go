// Package certificate keeps one certificate of a node: it asks the cluster for it, waits
// until that is approved and signed, keeps it in a file, and asks for the next one when it
// comes to its end or is to say something else. Who approves is the cluster's business.
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	certificates "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

const (
	// lookInterval is how often it is looked at whether the certificate is still wanted so.
	lookInterval = time.Second
	// signTimeout is how long a request is waited for before another is made: as a kubelet.
	signTimeout = 15 * time.Minute
	// renewFrom and renewWithin say in which part of its life a certificate is renewed:
	// between 70 and 90 %, so that Macs that came together do not ask together.
	renewFrom, renewWithin = 0.7, 0.2
)

// retries of requests that failed: after 2 s, doubled until half a minute.
func retries() wait.Backoff {
	return wait.Backoff{Duration: 2 * time.Second, Factor: 2, Jitter: 0.1, Steps: 5, Cap: 32 * time.Second}
}

// Options of Open. All must be set but Log.
type Options struct {
	// Pair names the file in Dir, which only the owner may read: FileOf.
	Dir, Pair string
	Signer    string
	Usages    []certificates.KeyUsage
	// Life is asked for; the signer may give less.
	Life time.Duration
	// Template is what the certificate is to say; nil while there is nothing to ask for.
	Template func() *x509.CertificateRequest
	// Requests is by whom it is asked for, who may have the present certificate.
	Requests func(present *tls.Certificate) (kube.CertificateRequests, error)
	Log      *slog.Logger
}

// FileOf is where the certificate of that name is kept, with its key.
func FileOf(dir, pair string) string { return filepath.Join(dir, pair+"-current.pem") }

// Rotator has the certificate, and asks for the next one.
type Rotator struct {
	o Options

	mu      sync.Mutex
	current *tls.Certificate
	renewAt time.Time
}

// Open reads the certificate of an earlier life, if there is one. A file that cannot be
// read as one is an error.
func Open(o Options) (*Rotator, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := &Rotator{o: o}
	path := FileOf(o.Dir, o.Pair)
	pair, err := tls.LoadX509KeyPair(path, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("reading the certificate %s: %w", path, err)
	}
	r.use(&pair)
	return r, nil
}

// Current is the certificate; nil while there is none that is valid.
func (r *Rotator) Current() *tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil || time.Now().After(r.current.Leaf.NotAfter) {
		return nil
	}
	return r.current
}

func (r *Rotator) use(pair *tls.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	life := pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)
	r.current = pair
	r.renewAt = pair.Leaf.NotBefore.Add(time.Duration(float64(life) * (renewFrom + renewWithin*rand.Float64()))) // it spreads load
}

// Run asks for certificates, as they are needed, until ctx ends.
func (r *Rotator) Run(ctx context.Context) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	pause := retries()
	for ctx.Err() == nil {
		template := r.o.Template()
		if template == nil || !r.due(template) {
			pause = retries()
			select {
			case <-look.C:
			case <-ctx.Done():
			}
			continue
		}
		if err := r.replace(ctx, template); err != nil && ctx.Err() == nil && !errors.Is(err, errOutdated) {
			r.o.Log.Warn("no new certificate yet", "signer", r.o.Signer, "err", err)
			retry := time.NewTimer(pause.Step())
			select {
			case <-retry.C:
			case <-ctx.Done():
				retry.Stop()
			}
		}
	}
}

// due reports whether another certificate is needed.
func (r *Rotator) due(template *x509.CertificateRequest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current == nil || !says(r.current.Leaf, template) || !time.Now().Before(r.renewAt)
}

// replace gets a certificate for the template.
func (r *Rotator) replace(ctx context.Context, template *x509.CertificateRequest) error {
	key, request, err := newRequest(template)
	if err != nil {
		return err
	}
	api, err := r.o.Requests(r.Current())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	asked, err := r.ask(ctx, api, request)
	if err != nil {
		return fmt.Errorf("asking for a certificate: %w", err)
	}
	signed, err := r.await(ctx, api, asked, template)
	if err != nil {
		return fmt.Errorf("waiting for the certificate of request %s: %w", asked.Name, err)
	}
	pair, err := tls.X509KeyPair(signed, key)
	if err != nil {
		return fmt.Errorf("using the certificate of request %s: %w", asked.Name, err)
	}
	// The file first: who has used a certificate finds it after a restart.
	file := atomicfile.File{Path: FileOf(r.o.Dir, r.o.Pair)}
	if err := file.Write(strings.NewReader(string(signed) + string(key))); err != nil && !errors.Is(err, atomicfile.ErrNameNotSynced) {
		return fmt.Errorf("keeping the certificate of request %s: %w", asked.Name, err)
	}
	r.use(&pair)
	return nil
}
