package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// visit is one look at one Machine: what was read, and what the phases found.
// Phases fill it; the status is derived from it once, at the end.
type visit struct {
	machine *infrav1.ScalewayAppleSiliconMachine
	// owner is the Cluster API Machine; nil until core has set the reference.
	owner   *clusterv1.Machine
	cluster *clusterv1.Cluster
	// zones of the Cluster, first one first.
	zones []string

	// host carries our claim; nil until then.
	host *host.Host
	// staged is what <machine>-bootstrap holds.
	staged staged
	// node bears the Machine's name; nil when there is none.
	node *corev1.Node
	// nodeRead says that node was looked for.
	nodeRead bool
	// applied is what a finished converge run has just proved.
	applied *infrav1.AppliedStatus
	// failure of the last push, while it stands.
	failure *Failure

	// untouchable: the host is ours, but its Mac is not to be touched: it is released,
	// or its server is gone.
	untouchable bool

	// proof of what became of the server of a missing Host.
	proof proof

	// poll is when to look again for what no watch tells; zero: never.
	poll time.Duration

	// silent: the finalizer is dropped, or the deletion waits for a move or a
	// pause, and no status is written.
	silent bool

	// revision that the profile wants; empty until it is known.
	revision string
	// update and drift are what is new about changes after the first bootstrap.
	update *infrav1.UpdateStatus
	drift  *infrav1.DriftStatus
	// consumed are the pools whose job has said all it had to say once the status
	// is written.
	consumed []*jobs

	claimed, bootstrapped, joined, upToDate, released, slots finding
}

// finding is what a phase has to say in its condition. The zero value says
// nothing and leaves the condition as it is.
type finding struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func yes(reason string) finding { return finding{status: metav1.ConditionTrue, reason: reason} }

func no(reason, message string, args ...any) finding {
	return finding{status: metav1.ConditionFalse, reason: reason, message: fmt.Sprintf(message, args...)}
}

func unknown(reason, message string, args ...any) finding {
	return finding{status: metav1.ConditionUnknown, reason: reason, message: fmt.Sprintf(message, args...)}
}

// token of the claim, empty without an intent.
func (v *visit) token() string {
	if v.machine.Spec.HostRef == nil {
		return ""
	}
	return v.machine.Spec.HostRef.ClaimToken
}

// claimRef is the claim that the intent means, as the host bears it.
func (v *visit) claimRef() *infrav1.ClaimReference {
	ref := host.ClaimOf(v.machine)
	ref.Cluster = clusterName(v.machine)
	return &ref
}

// leaving reports whether the Machine or its Cluster is on its way out.
func (v *visit) leaving() bool {
	switch {
	case !v.machine.DeletionTimestamp.IsZero():
		return true
	case v.owner != nil && !v.owner.DeletionTimestamp.IsZero():
		return true
	}
	return v.cluster != nil && !v.cluster.DeletionTimestamp.IsZero()
}

// look reads what the phases need. Only the Machine itself must be there.
func (r *Reconciler) look(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (*visit, error) {
	v := &visit{machine: m}
	var err error
	if v.owner, err = util.GetOwnerMachine(ctx, r.Client, m.ObjectMeta); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the owning Machine: %w", err)
	}
	if name := clusterName(m); name != "" {
		v.cluster, err = util.GetClusterByName(ctx, r.Client, m.Namespace, name)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
		}
	}
	if v.cluster != nil {
		if v.zones, err = r.clusterZones(ctx, v.cluster); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// clusterZones returns the zones of the Cluster's infrastructure; a Cluster
// without ours has none, and its Machines name their zone.
func (r *Reconciler) clusterZones(ctx context.Context, cluster *clusterv1.Cluster) ([]string, error) {
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() || ref.Kind != "ScalewayAppleSiliconCluster" {
		return nil, nil
	}
	infra := &infrav1.ScalewayAppleSiliconCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, infra)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return infra.Spec.Zones, nil
}

func infrastructureProvisioned(cluster *clusterv1.Cluster) bool {
	return cluster != nil && ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false)
}

// Keys of the Secret <machine>-bootstrap that are this controller's alone.
const (
	keyFailures    = "bootstrap-attempts"
	keyTokenExpiry = "token-expires"
)

// staged is the content of <machine>-bootstrap.
type staged struct {
	found      bool
	password   cloud.Password
	user       string
	address    string
	epoch      int64
	claimToken string
	tokenID    string
	// tokenExpires is set once a bootstrap token was delivered to the Mac.
	tokenExpires time.Time
	// hostKey, hardware and attempts mirror the host's record, to rebuild a lost Host.
	hostKey  string
	hardware string
	attempts string
	failures string
}

func (r *Reconciler) readStaged(ctx context.Context, machine client.ObjectKey) (staged, error) {
	name := host.BootstrapSecretName(machine.Name)
	secret := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return staged{}, nil
	}
	if err != nil {
		return staged{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return parseStaged(secret), nil
}

func parseStaged(secret *corev1.Secret) staged {
	text := func(key string) string { return string(secret.Data[key]) }
	s := staged{
		found: true, user: text(host.KeySSHUsername), address: text(host.KeyAddress), claimToken: text(host.KeyClaimToken),
		tokenID: text(host.KeyTokenID), hostKey: text(host.KeyHostKey), hardware: text(host.KeyHardware), attempts: text(host.KeyPasswordAttempts), failures: text(keyFailures),
	}
	s.password, _ = cloud.NewPassword(text(host.KeySudoPassword))
	// An unreadable number or time means "not staged" and "not delivered".
	s.epoch, _ = strconv.ParseInt(text(host.KeyInstallEpoch), 10, 64)
	s.tokenExpires, _ = time.Parse(time.RFC3339, text(keyTokenExpiry))
	return s
}

// joinable reports whether the Mac holds a token that may still let it in.
func (s staged) joinable(now time.Time) bool { return s.tokenID != "" && now.Before(s.tokenExpires) }

// patchStaged sets keys of <machine>-bootstrap that are ours; nil removes one.
// The host controller writes other keys at the same time, so only these are sent.
func (r *Reconciler) patchStaged(ctx context.Context, key client.ObjectKey, values map[string]*string) error {
	data := map[string]any{}
	for name, value := range values {
		data[name] = nil
		if value != nil {
			data[name] = []byte(*value)
		}
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: host.BootstrapSecretName(key.Name)}}
	if err := r.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("recording in Secret %s: %w", secret.Name, err)
	}
	return nil
}
