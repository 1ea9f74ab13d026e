package world

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

// ErrIncomplete means that a release's folder of programs lacks one of them.
var ErrIncomplete = errors.New("the programs of the sandbox are incomplete: unpack the release's archive again")

// Layout is where a release has the sandbox's programs, in a folder beside macfleet.
// Agnhost, which only Kubernetes' own tests run, is not among them.
func Layout(dir string) Binaries {
	binaries := layoutOurs(dir)
	binaries.Cluster = cluster.Layout(filepath.Join(dir, "controlplane"))
	binaries.Cluster.Agnhost = ""
	return binaries
}

// layoutOurs is the part that a checkout's own folder in the cache has, too.
func layoutOurs(dir string) Binaries {
	return Binaries{
		Manager:   filepath.Join(dir, "manager"),
		AgentDir:  filepath.Join(dir, "agent"),
		AgentTwin: filepath.Join(dir, "twin", "tart-kubelet"),
		Mac:       filepath.Join(dir, "mac"),
	}
}

// files are the programs that have to be there.
func (b Binaries) files() []string {
	return []string{
		b.Cluster.ControlPlane, b.Cluster.Core, filepath.Join(b.Cluster.Manifests, "crds"),
		b.Manager, filepath.Join(b.AgentDir, "tart-kubelet"), b.AgentTwin,
		filepath.Join(b.Mac, "macsim"), filepath.Join(b.Mac, "macshim"),
	}
}

// prebuilt are the programs in a release's folder; found says whether there is one.
func prebuilt(dir string) (binaries Binaries, found bool, err error) {
	if dir == "" {
		return Binaries{}, false, nil
	}
	binaries = Layout(dir)
	// The sources have a folder of that name, too.
	if _, err := os.Stat(binaries.Manager); errors.Is(err, fs.ErrNotExist) {
		return Binaries{}, false, nil
	}
	for _, file := range binaries.files() {
		if _, err := os.Stat(file); err != nil {
			return Binaries{}, false, fmt.Errorf("%w (%w)", ErrIncomplete, err)
		}
	}
	return binaries, true, nil
}
