package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const (
	// vendorSecret has the vendor's credentials; the chart mounts it into the manager.
	vendorSecret = "macfleet-vendor"
	// mountPoll is how often the mount is compared with the Secret. A kubelet takes up to a
	// minute longer.
	mountPoll = time.Second
	// mountLink names the files that count, in a kubelet's words.
	mountLink = "..data"
)

// storeVendorSecret writes the Secret that an operator makes before the chart.
func storeVendorSecret(ctx context.Context, a *applier) error {
	return a.apply(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": vendorSecret, "namespace": Namespace},
		"stringData": map[string]any{
			"SCW_ACCESS_KEY": scaleway.DefaultAccessKey, "SCW_SECRET_KEY": scaleway.DefaultSecretKey, "SCW_DEFAULT_PROJECT_ID": scaleway.DefaultProjectID,
		},
	}})
}

// mount keeps a folder as a kubelet keeps the mount of the vendor's Secret: with all
// of its files replaced at once, and with the old ones where the Secret is gone.
type mount struct {
	secrets corev1client.SecretInterface
	dir     string
	// always are files that the Secret does not change: a sandbox's manager speaks to no
	// vendor but its own.
	always map[string][]byte
	shown  map[string][]byte
}

// sync reports whether the files were replaced.
func (m *mount) sync(ctx context.Context) (bool, error) {
	secret, err := m.secrets.Get(ctx, vendorSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && m.shown != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the Secret %s: %w", vendorSecret, err)
	}
	files := map[string][]byte{}
	for _, from := range []map[string][]byte{secret.Data, m.always} {
		for name, value := range from {
			files[name] = value
		}
	}
	if m.shown != nil && same(files, m.shown) {
		return false, nil
	}
	if err := replaceFiles(m.dir, files); err != nil {
		return false, fmt.Errorf("writing the vendor's credentials for the manager: %w", err)
	}
	m.shown = files
	return true, nil
}

func same(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(value, other) {
			return false
		}
	}
	return true
}

// replaceFiles writes a new folder and moves the link to it.
func replaceFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(next, name), value, 0o600); err != nil {
			return err
		}
	}
	link := filepath.Join(dir, mountLink)
	before, err := os.Readlink(link)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(next), link+".new"); err != nil {
		return err
	}
	if err := os.Rename(link+".new", link); err != nil || before == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, before))
}

// keep syncs until ctx ends.
func (m *mount) keep(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(mountPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if replaced, err := m.sync(ctx); err != nil && ctx.Err() == nil {
			log.Warn("the vendor's credentials of the manager are as before", "error", err)
		} else if replaced {
			log.Info("the manager's mount of the vendor's credentials was replaced")
		}
	}
}
