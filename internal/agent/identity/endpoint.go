package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/macfleet/macfleet/internal/atomicfile"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// endpointFile remembers the server, as the bootstrap credentials go away.
const endpointFile = "server.json"

// endpoint is where the API server is, and by what authority it is known.
type endpoint struct {
	Server string `json:"server"`
	CA     []byte `json:"ca"`
}

// bootstrap is the content of the bootstrap kubeconfig.
type bootstrap struct {
	endpoint
	config *rest.Config
}

// readBootstrap reads the file anew. Its errors do not show the token.
func readBootstrap(path string) (bootstrap, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return bootstrap{}, fmt.Errorf("%s is not there: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return bootstrap{}, fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return bootstrap{}, fmt.Errorf("%s is no usable kubeconfig", path)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return bootstrap{}, fmt.Errorf("loading the files named by %s: %w", path, err)
	}
	return bootstrap{endpoint: endpoint{Server: config.Host, CA: config.CAData}, config: config}, nil
}

// awaitEndpoint takes the server from the bootstrap kubeconfig, else from an
// earlier life, else waits for the former.
func awaitEndpoint(ctx context.Context, o Options) (endpoint, error) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	complained := time.Time{}
	for {
		e, err := findEndpoint(o)
		if err == nil {
			return e, nil
		}
		if now := time.Now(); now.Sub(complained) >= complainInterval {
			complained = now
			o.Log.Warn("no API server known yet", "node", o.NodeName, "waitingFor", err.Error())
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return endpoint{}, fmt.Errorf("waiting for bootstrap credentials: %w", context.Cause(ctx))
		}
	}
}

func findEndpoint(o Options) (endpoint, error) {
	path := filepath.Join(o.Dir, endpointFile)
	known := remembered(path)
	b, err := readBootstrap(o.BootstrapKubeconfig)
	switch {
	case err == nil && known.Server != "" && !bytes.Equal(known.CA, b.CA):
		// First: who remembers the new one only would go on with the old certificates.
		if err := dropAll(o.Dir); err != nil {
			return endpoint{}, err
		}
		o.Log.Info("another cluster's credentials were delivered: certificates of the one before are not used again", "node", o.NodeName, "server", b.Server, "before", known.Server)
		return b.endpoint, remember(path, b.endpoint)
	case err == nil && known.Server == "":
		return b.endpoint, remember(path, b.endpoint)
	case err == nil && known.Server != b.Server:
		// The kubeconfig that says so is still there at the next start. On a full disk, what
		// makes room comes after this.
		if err := remember(path, b.endpoint); err != nil {
			o.Log.Warn("the API server's new address is not written down", "node", o.NodeName, "server", b.Server, "err", err)
		}
		return b.endpoint, nil
	case known.Server == "":
		return endpoint{}, err
	}
	return known, nil
}

// remembered is the server of an earlier life; none where there was no such.
func remembered(path string) endpoint {
	var e endpoint
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &e) != nil {
		return endpoint{}
	}
	return e
}

// dropAll moves all certificates aside. Another authority is another cluster's, or a new
// control plane's: neither knows who signed them, and each would refuse them for as long as
// they are valid. The fresh token gets new ones.
func dropAll(dir string) error {
	pairs, err := filepath.Glob(filepath.Join(dir, "*-current.pem"))
	if err != nil {
		return fmt.Errorf("looking for certificates: %w", err)
	}
	for _, path := range pairs {
		if err := os.Rename(path, path+".unusable"); err != nil {
			return fmt.Errorf("moving a certificate of another cluster aside: %w", err)
		}
	}
	return nil
}

func remember(path string, e endpoint) error {
	if err := atomicfile.WriteJSON(path, e); err != nil {
		return fmt.Errorf("remembering the API server: %w", err)
	}
	return nil
}
