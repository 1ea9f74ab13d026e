package agent

import (
	"context"
	"path/filepath"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/node"
	"github.com/macfleet/macfleet/internal/agent/servingcert"
)

// serving is the certificate of the kubelet API; none where that is off.
type serving struct {
	*servingcert.Certificate
	// news is told when the certificate became another kind.
	news func()
}

// serving prepares the certificate for the Node's addresses. A Mac whose addresses are
// others is configured anew, so that they are those of this process.
func (a *agent) serving(client kube.Client, self node.Self) (*serving, error) {
	s := &serving{news: func() {}}
	if a.config.Kubelet.ListenPort() == 0 {
		return s, nil
	}
	var err error
	s.Certificate, err = servingcert.New(servingcert.Options{
		NodeName: a.config.Host.Name, Addresses: self.Addresses, Client: client,
		Dir: filepath.Join(a.o.StateDir, "identity"), Changed: func() { s.news() }, Log: a.log,
	})
	return s, err
}

// run asks for certificates until ctx ends.
func (s *serving) run(ctx context.Context) error {
	if s.Certificate == nil {
		<-ctx.Done()
		return nil
	}
	return s.Run(ctx)
}
