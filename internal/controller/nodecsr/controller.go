package nodecsr

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Reconciler approves requests.
type Reconciler struct {
	Client client.Client
	// Reader reads Secrets uncached.
	Reader client.Reader
}

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client-kubelet,verbs=approve

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	pending := predicate.NewPredicateFuncs(func(object client.Object) bool {
		csr, is := object.(*certificatesv1.CertificateSigningRequest)
		return is && undecided(csr) && csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
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
	ask, err := Read(csr)
	if err != nil {
		log.V(1).Info("Request left alone", "why", err.Error())
		return ctrl.Result{}, nil
	}
	machines, err := r.machines(ctx, ask.Node)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !Approves(ask, machines) {
		log.Info("Request left pending: no live Machine of that name and token", "node", ask.Node)
		return ctrl.Result{}, nil
	}
	if err := r.approve(ctx, csr); err != nil {
		return ctrl.Result{}, err
	}
	log.Info("Certificate request approved", "node", ask.Node, "renewal", ask.TokenID == "")
	return ctrl.Result{}, nil
}

// machines are the live Machines of a name, in every namespace we see.
func (r *Reconciler) machines(ctx context.Context, name string) ([]Machine, error) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	var out []Machine
	for i := range list.Items {
		m := &list.Items[i]
		if m.Name != name || !m.DeletionTimestamp.IsZero() {
			continue
		}
		token, err := r.tokenID(ctx, m)
		if err != nil {
			return nil, err
		}
		out = append(out, Machine{Name: m.Name, TokenID: token, Provisioned: m.Spec.ProviderID != ""})
	}
	return out, nil
}

func (r *Reconciler) tokenID(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (string, error) {
	secret := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: host.BootstrapSecretName(m.Name)}, secret)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Secret %s: %w", host.BootstrapSecretName(m.Name), err)
	}
	return string(secret.Data[host.KeyTokenID]), nil
}

func (r *Reconciler) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "MacOfThisFleet", Message: "a live Machine of this name was given this token, or the node renews its certificate",
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
