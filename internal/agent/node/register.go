package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// errNotOurs: the Node of our name is another Mac's.
var errNotOurs = errors.New("the Node is not ours, and is left as it is")

// register makes the Node ours if it may be, and returns it; nil while it may not.
// It decides on a fresh read: a cache may lag behind a deletion.
func (k *Keeper) register(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	permit, used, err := k.permit()
	if err != nil && n == nil {
		return nil, err
	}
	d := decide(n, k.o.Self.Config.Host.ProviderID, permit, used, k.o.Clock.Now())
	switch d.Action {
	case actionKeep:
		return n, nil
	case actionClaim:
		return k.claim(ctx, n)
	case actionCreate:
		return k.create(ctx, permit.ID)
	case actionRefuse:
		return nil, fmt.Errorf("%w: %s", errNotOurs, d.Why)
	}
	k.logBlocked(d.Why)
	return nil, nil
}

func (k *Keeper) read(ctx context.Context) (*corev1.Node, error) {
	n, err := k.o.Client.Nodes().Get(ctx, k.name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Node: %w", err)
	}
	return n, nil
}

// permit returns the delivered permit and whether it is used up.
func (k *Keeper) permit() (*document.JoinPermit, bool, error) {
	permit, err := k.permits.read()
	if err != nil || permit == nil {
		return nil, false, err
	}
	used, err := k.permits.wasUsed(permit.ID)
	return permit, used && k.usedPermit != permit.ID, err
}

// claim gives a Node without one our providerID, under its resourceVersion.
func (k *Keeper) claim(ctx context.Context, n *corev1.Node) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "uid": n.UID},
		"spec":     map[string]any{"providerID": k.o.Self.Config.Host.ProviderID},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch of the Node: %w", err)
	}
	claimed, err := k.o.Client.Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("giving the Node its providerID: %w", err)
	}
	k.o.Log.Info("Node was given its providerID", "node", n.Name)
	return claimed, nil
}

// create uses the permit up, on the disk, before the Node is made. The permit is
// good for another try only while this process knows for sure that none was made:
// a lost answer may stand for a Node that was made and deleted meanwhile. After a
// refusal of the Node itself it is good for the next process, too: what the Node
// is refused for may need another configuration to be mended.
func (k *Keeper) create(ctx context.Context, id string) (*corev1.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// From here on it is brought to its end, also when the agent is told to stop: a
	// permit that is used up without a Node keeps the Mac out until the next one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := k.permits.use(id); err != nil {
		return nil, err
	}
	k.usedPermit = id
	made, err := k.o.Client.Nodes().Create(ctx, k.o.Self.object(), metav1.CreateOptions{})
	switch {
	case err == nil:
		k.usedPermit = ""
		k.o.Log.Info("Node created", "node", made.Name, "permit", id)
		return made, nil
	case apierrors.IsAlreadyExists(err) || !surelyNotMade(err):
		k.usedPermit = ""
	case refused(err):
		err = errors.Join(err, k.permits.forget(id))
	}
	return nil, fmt.Errorf("creating the Node with join permit %s: %w", id, err)
}

// surelyNotMade: the API server itself said no.
func surelyNotMade(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// refused: the API server does not want this Node as it is, for now. What something
// on the way to it answered says nothing.
func refused(err error) bool {
	own := !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return own && (apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err))
}
