package e2e

import (
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

// ssh runs a command on the one Mac in use, with the fleet's key.
func (f *fleet) ssh(command string) string {
	f.Helper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: world.Namespace, Name: world.Fleet + "-ssh"}
	if err := f.client.Get(f.Context(), key, &secret); err != nil {
		f.Fatalf("reading the fleet's key: %v", err)
	}
	signer, err := ssh.ParsePrivateKey(secret.Data["ssh-privatekey"])
	if err != nil {
		f.Fatalf("parsing the fleet's key: %v", err)
	}
	var address string
	for _, host := range f.hosts() {
		if host.Status.Phase == infrav1.HostInUse {
			address = host.Status.Server.IP
		}
	}
	connection, err := ssh.Dial("tcp", net.JoinHostPort(address, strconv.Itoa(f.world.SSHPort())), &ssh.ClientConfig{
		User: "m1", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		f.Fatalf("reaching the Mac at %s: %v", address, err)
	}
	defer connection.Close()
	session, err := connection.NewSession()
	if err != nil {
		f.Fatal(err)
	}
	output, err := session.CombinedOutput(command)
	if err != nil {
		f.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}
