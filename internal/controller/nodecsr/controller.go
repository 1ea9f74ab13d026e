package nodecsr

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// reasonRefused is the reason of the Event on a Machine whose Mac, or whoever has
// its credentials, asked for a certificate in vain.
const reasonRefused = "CertificateRefused"

// Reconciler approves requests.
type Reconciler struct {
	Client client.Client
	// Reader reads uncached: a certificate is never approved from what a cache has kept.
	Reader client.Reader
	// APIServer is where people and Macs reach the API server. nil: nobody knows.
	APIServer func(context.Context) (workload.Endpoint, error)
	Recorder  events.EventRecorder
	// Clock; nil: the real one.
	Clock clock.PassiveClock

	turns turns
}

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client-kubelet;kubernetes.io/kubelet-serving,verbs=approve
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.Recorder = mgr.GetEventRecorder("macfleet-nodecsr")
	pending := predicate.NewPredicateFuncs(func(object client.Object) bool {
		csr, is := object.(*certificatesv1.CertificateSigningRequest)
		return is && undecided(csr) && ours(csr.Spec.SignerName)
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("nodecsr").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(pending)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the CSR controller: %w", err)
	}
	return nil
}

func undecided(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Conditions) == 0 && len(csr.Status.Certificate) == 0
}

// Reconcile approves one request, or leaves it alone.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.Client.Get(ctx, req.NamespacedName, csr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !undecided(csr) {
		return ctrl.Result{}, nil
	}
	log := ctrl.LoggerFrom(ctx)
	now, age := r.now(), time.Duration(0)
	if !csr.CreationTimestamp.IsZero() {
		age = now.Sub(csr.CreationTimestamp.Time)
	}
	if !r.turns.take(csr.Spec.Username, now) {
		log.V(1).Info("Request waits: its requester has many", "requester", csr.Spec.Username)
		return ctrl.Result{RequeueAfter: later(lookAgain, age)}, nil
	}
	ask, err := read(csr)
	if err != nil {
		log.V(1).Info("Request left alone", "why", err.Error())
		return ctrl.Result{}, nil
	}
	again, err := r.answer(ctrl.LoggerInto(ctx, log.WithValues("node", ask.Node, "signer", csr.Spec.SignerName)), csr, ask)
	return ctrl.Result{RequeueAfter: later(again, age)}, err
}

func (r *Reconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// answer looks up what the request is about, and approves it or says why not: then it may be
// worth another look after a while.
func (r *Reconciler) answer(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, ask nodeRequest) (again time.Duration, err error) {
	log := ctrl.LoggerFrom(ctx)
	node, err := r.node(ctx, ask.Node)
	if err != nil {
		return 0, err
	}
	h, err := r.host(ctx, ask, node)
	if err != nil {
		return 0, err
	}
	switch {
	case h == nil && ask.TokenID != "":
		log.Info("Certificate request left pending: no host's record bears the token; it was replaced, has ended, or is none of macfleet's", "token", ask.TokenID)
		return 0, nil
	case h == nil:
		log.V(1).Info("Request left alone", "why", "the Node is no Mac of ours")
		if node == nil {
			return lookAgainFor(ask), nil // which of two namesakes it is, the Node will tell
		}
		return 0, nil
	}
	m, err := r.machine(ctx, h)
	if err != nil {
		return 0, err
	}
	if ask.apiServer, err = r.apiServer(ctx, ask); err != nil {
		return 0, err
	}
	if refused := refusal(ask, h, m, node); refused.Why != "" {
		r.tell(ctx, ask, h, m, refused)
		return refused.Again, nil
	}
	if err := r.approve(ctx, csr, ask); err != nil {
		return 0, err
	}
	log.Info("Certificate request approved", "host", h.Name, "renewal", ask.TokenID == "" && !ask.Serving)
	return 0, nil
}

// apiServer is the API server's name as its clients know it, for a request that names
// something; empty: none is known.
func (r *Reconciler) apiServer(ctx context.Context, ask nodeRequest) (string, error) {
	if r.APIServer == nil || len(ask.Names) == 0 {
		return "", nil
	}
	endpoint, err := r.APIServer(ctx)
	if _, unknown := errors.AsType[*workload.UnknownEndpointError](err); unknown {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("finding out the API server's name: %w", err)
	}
	server, err := url.Parse(endpoint.Server)
	if err != nil {
		return "", fmt.Errorf("reading the API server's address: %w", err)
	}
	return server.Hostname(), nil
}

// tell says why a request is not approved.
func (r *Reconciler) tell(ctx context.Context, ask nodeRequest, h *host.Host, m *infrav1.ScalewayAppleSiliconMachine, refused refused) {
	log := ctrl.LoggerFrom(ctx)
	if refused.Quietly {
		log.V(1).Info("Certificate request waits: "+refused.Why, "host", h.Name)
		return
	}
	log.Info("Certificate request left pending: "+refused.Why, "host", h.Name)
	if m == nil {
		return
	}
	what := "certificate"
	if ask.Serving {
		what = "serving certificate"
	}
	r.Recorder.Eventf(m, nil, corev1.EventTypeWarning, reasonRefused, refused.Check, "the %s of Node %s is not approved: %s", what, ask.Node, refused.Why)
}

// node is the Node of a name, or nil.
func (r *Reconciler) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return node, nil
}

// host is the one that a request is about, read uncached, or nil. The cache says which few
// it may be; that it is none of them only a list of all says, which each Mac of a large
// fleet is spared.
func (r *Reconciler) host(ctx context.Context, ask nodeRequest, node *corev1.Node) (*host.Host, error) {
	cached := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Client.List(ctx, cached, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing hosts from the cache: %w", err)
	}
	slices.SortFunc(cached.Items, func(a, b host.Host) int { return strings.Compare(a.Name, b.Name) }) // as the API server lists them
	for i := range cached.Items {
		if !matches(ask, node, &cached.Items[i]) {
			continue
		}
		h := &host.Host{}
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(&cached.Items[i]), h)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading host %s: %w", cached.Items[i].Name, err)
		}
		if err == nil && matches(ask, node, h) {
			return h, nil
		}
	}
	all := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Reader.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	return find(ask, node, all.Items), nil
}

// machine is the one that the host's claim names, or nil.
func (r *Reconciler) machine(ctx context.Context, h *host.Host) (*infrav1.ScalewayAppleSiliconMachine, error) {
	claim := h.Spec.ClaimRef
	if claim == nil {
		return nil, nil
	}
	m := &infrav1.ScalewayAppleSiliconMachine{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Machine %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return m, nil
}

func (r *Reconciler) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, ask nodeRequest) error {
	why := "the token was made for the Mac of this Machine, or the Mac's Node renews its certificate"
	if ask.Serving {
		why = "the Node is the Mac of a Machine, and the certificate names its name and its address alone"
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "MacOfThisFleet", Message: why,
	})
	err := r.Client.SubResource("approval").Update(ctx, csr)
	if apierrors.IsConflict(err) {
		return nil // it has changed, and its change brings us back
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("approving %s: %w", csr.Name, err)
	}
	return nil
}
