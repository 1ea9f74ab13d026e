package e2e

import (
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"golang.org/x/crypto/ssh"
)

// TestFleetComesUpAndGoesBackWiped is the product's whole promise in one story.
func TestFleetComesUpAndGoesBackWiped(t *testing.T) {
	t.Parallel()
	f := start(t, world.Options{Hosts: 6})
	f.awaitPool(6)
	keysBefore := f.hostKeys()

	f.scale(3)
	f.awaitRunning(3)
	f.awaitUpToDate()
	f.deploy(3)
	f.awaitPods(3)
	used := f.owners()
	if len(used) != 3 {
		t.Fatalf("hosts with owners: %v, want 3", used)
	}

	f.scale(1)
	f.await("one Node", func() (string, bool) { return fmt.Sprint(len(f.nodes()), " nodes"), len(f.nodes()) == 1 })
	f.awaitPool(5)
	f.awaitRunning(1)
	f.checkReturned(used, keysBefore)
	// Two slots on the Mac that stayed: two Pods run there, the third waits.
	f.awaitPods(2)
	if deletions := f.calls("DeleteServer"); len(deletions) != 0 {
		t.Errorf("servers were deleted: %v", deletions)
	}
	f.checkRightsSufficed()
}

// checkReturned checks the two hosts that went back: their pool name, a wipe each,
// another host key, and no trace of their last life.
func (f *fleet) checkReturned(used map[string]string, keysBefore map[string]string) {
	f.Helper()
	stayed := f.owners()
	returned := 0
	for id, owner := range used {
		if _, still := stayed[id]; still {
			continue
		}
		returned++
		server := f.server(id)
		if want := world.PoolPrefix + id; server.Name != want {
			f.Errorf("server %s is named %q, want %q", id, server.Name, want)
		}
		if server.Installs != 2 {
			f.Errorf("server %s was installed %d times, want 2: delivery and one wipe", id, server.Installs)
		}
		if key := f.hostKey(server); key == keysBefore[id] {
			f.Errorf("server %s has the host key of its last life", id)
		}
		f.checkNoTrace(id, owner)
	}
	if returned != 2 {
		f.Errorf("%d hosts went back to the pool, want 2", returned)
	}
}

// checkNoTrace looks for anything of ours on a wiped disk.
func (f *fleet) checkNoTrace(id, owner string) {
	f.Helper()
	machine, found := f.world.Mac(id)
	if !found {
		f.Fatalf("no Mac behind server %s", id)
	}
	err := filepath.WalkDir(machine.Root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // bind mounts and sockets of the running Mac
		}
		name := entry.Name()
		if strings.Contains(name, "macfleet") || strings.Contains(name, owner) || strings.HasPrefix(name, "tk-") || name == "m1-nopasswd" {
			f.Errorf("%s is left on the wiped disk of server %s", path, id)
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// owners are the claimed servers and the names of their owners.
func (f *fleet) owners() map[string]string {
	f.Helper()
	owners := map[string]string{}
	for _, host := range f.hosts() {
		if host.Spec.ClaimRef != nil {
			owners[host.Spec.ServerID] = host.Spec.ClaimRef.Name
		}
	}
	return owners
}

// hostKeys are the SSH host keys that the servers present.
func (f *fleet) hostKeys() map[string]string {
	f.Helper()
	keys := map[string]string{}
	for _, server := range f.world.Vendor().Servers() {
		keys[server.ID] = f.hostKey(server)
	}
	return keys
}

func (f *fleet) hostKey(server scaleway.Server) string {
	f.Helper()
	var presented string
	config := &ssh.ClientConfig{
		User:              "nobody",
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			presented = ssh.FingerprintSHA256(key)
			return nil
		},
	}
	address := net.JoinHostPort(server.IP.String(), strconv.Itoa(f.world.SSHPort()))
	connection, err := ssh.Dial("tcp", address, config)
	if err == nil {
		f.Errorf("%s let a stranger in", address)
		_ = connection.Close()
	}
	if presented == "" {
		f.Fatalf("%s presented no host key: %v", address, err)
	}
	return presented
}
