package stage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

const (
	tokenID     = "abcdef"
	tokenSecret = "0123456789abcdef"
	// joiners is the group of the bootstrap token.
	joiners = "system:bootstrappers:macfleet"
	// poll is how often something local and quick is looked at.
	poll = 50 * time.Millisecond
)

// Options of a Plane. Dir is required.
type Options struct {
	// Dir takes everything that is written, the binaries too.
	Dir string
	// Source is the root of the checkout; empty: the one around the working directory.
	Source string
	// Race builds the agent with the race detector.
	Race bool
}

// Plane is a control plane that lets Macs join by themselves.
type Plane struct {
	// Client has the administrator's rights.
	Client kubernetes.Interface

	options Options
	cluster *cluster.Cluster
	started cluster.Options
	stop    context.CancelFunc
	done    chan struct{}
}

// Start builds the binaries, starts the control plane without core, with an audit
// log, and approves the certificate requests of nodes from then on, as a provider
// does. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Plane, error) {
	p := &Plane{options: o, done: make(chan struct{})}
	if err := p.buildAll(ctx); err != nil {
		return nil, err
	}
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{SourceDir: o.Source})
	if err != nil {
		return nil, fmt.Errorf("building the control plane: %w", err)
	}
	p.started = cluster.Options{
		Binaries: binaries, Dir: filepath.Join(o.Dir, "cluster"), AuditLog: p.auditLog(), WithoutCore: true,
		APIServerArgs: []string{"--audit-log-maxsize=0"},
	}
	if err := p.startCluster(ctx); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.cluster.Stop(context.WithoutCancel(ctx)))
	}
	approving, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go p.approve(approving)
	return p, nil
}

func (p *Plane) auditLog() string { return filepath.Join(p.options.Dir, "audit.log") }

// Stop ends the control plane. Macs are closed before.
func (p *Plane) Stop(ctx context.Context) error {
	p.stop()
	<-p.done
	return p.cluster.Stop(ctx)
}

// Config has the administrator's rights, and the cluster's authority.
func (p *Plane) Config() *rest.Config { return p.cluster.Config() }

// PID is the control plane's process.
func (p *Plane) PID() int { return p.cluster.PIDs()["control plane"] }

// Down stops the control plane for all Macs at once; Up starts it again, with the
// same objects and at the same address.
func (p *Plane) Down(ctx context.Context) error { return p.cluster.Stop(ctx) }

// Up is what follows Down.
func (p *Plane) Up(ctx context.Context) error { return p.startCluster(ctx) }

func (p *Plane) startCluster(ctx context.Context) error {
	c, err := cluster.Start(ctx, p.started)
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	server, err := url.Parse(c.Server())
	if err == nil {
		_, err = fmt.Sscanf(server.Port(), "%d", &p.started.Port)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("reading the address of the API server: %w", err), c.Stop(ctx))
	}
	config := c.Config()
	config.QPS = -1 // who watches a test looks often
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return errors.Join(fmt.Errorf("making a client: %w", err), c.Stop(ctx))
	}
	p.cluster, p.Client = c, client
	return nil
}

func (p *Plane) bin(name string) string { return filepath.Join(p.options.Dir, "bin", name) }

func (p *Plane) buildAll(ctx context.Context) error {
	if err := os.MkdirAll(p.bin(""), 0o755); err != nil {
		return fmt.Errorf("making the folder of the binaries: %w", err)
	}
	var flags []string
	if p.options.Race {
		flags = append(flags, "-race")
	}
	if err := p.build(ctx, "tart-kubelet", "./cmd/tart-kubelet", flags...); err != nil {
		return err
	}
	return p.build(ctx, "tart", "./sandbox/mac/tart/cmd/tart")
}

func (p *Plane) build(ctx context.Context, name, pkg string, flags ...string) error {
	cgo := "CGO_ENABLED=0"
	if slices.Contains(flags, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	// As releases are: with grpc's tracing, the linker has to keep every method there is,
	// and what an agent costs is that of another program.
	asReleased := []string{"build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", p.bin(name)}
	cmd := exec.CommandContext(ctx, "go", append(append(asReleased, flags...), pkg)...)
	cmd.Dir = p.source()
	cmd.Env = append(os.Environ(), cgo)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, text)
	}
	return nil
}

// source is the root of the checkout: the first folder upwards that has a go.work.
func (p *Plane) source() string {
	if p.options.Source != "" {
		return p.options.Source
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

// prepare makes what joining needs: a token, and the one binding for its group.
// Agents get no role but those that the control plane ships.
func (p *Plane) prepare(ctx context.Context) error {
	_, err := p.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrappers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: joiners}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("binding the joiners: %w", err)
	}
	_, err = p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + tokenID},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": tokenID, "token-secret": tokenSecret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": joiners, "expiration": time.Now().Add(12 * time.Hour).UTC().Format(time.RFC3339),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the token to join with: %w", err)
	}
	return Await(ctx, "the default service account", func() bool {
		_, err := p.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// approve approves what nodes request, until ctx ends.
func (p *Plane) approve(ctx context.Context) {
	defer close(p.done)
	ticker := time.NewTicker(2 * poll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.approveAll(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// approveAll tries once; what fails is tried at the next tick.
func (p *Plane) approveAll(ctx context.Context) {
	requests := p.Client.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		r := &list.Items[i]
		if len(r.Status.Conditions) > 0 {
			continue
		}
		r.Status.Conditions = append(r.Status.Conditions, certificates.CertificateSigningRequestCondition{
			Type: certificates.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved by the test",
		})
		_, _ = requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
	}
}

// Await returns once done does, or with an error that says what never happened when
// ctx ends.
func Await(ctx context.Context, what string, done func() bool) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("never happened: %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// IsGone reports whether the API server said that there is no such object.
func IsGone(err error) bool { return apierrors.IsNotFound(err) }
