package host

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/owner"
)

// +kubebuilder:rbac:groups="",namespace=fleet,resources=secrets,verbs=get;create;update

// staging keeps the credentials of the server in the owner's Secret.
type staging struct{ *scope }

// reconcile writes the credentials of a reading. A sealed password is none: its key is
// left out, and the vendor is asked again.
func (p *staging) reconcile(ctx context.Context, credentials cloud.Credentials, again time.Duration) (ctrl.Result, error) {
	if err := p.writeSecret(ctx, credentials); err != nil {
		return ctrl.Result{}, err
	}
	if !credentials.Password.Present() {
		p.condition(host.CredentialsStagedCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsSealed, "the vendor shows no password")
		return ctrl.Result{RequeueAfter: again}, nil
	}
	p.condition(host.CredentialsStagedCondition, metav1.ConditionTrue, host.ReasonStaged, "")
	return ctrl.Result{RequeueAfter: secretCheck}, nil
}

func (p *staging) secretKey() client.ObjectKey {
	return client.ObjectKey{Namespace: p.owner.Namespace, Name: host.BootstrapSecretName(p.owner.Name)}
}

// done says whether the Secret has all that its Machine needs. One that has it and lost its
// owner gets it back: it would outlive the Machine.
func (p *staging) done(ctx context.Context) (bool, error) {
	secret := &corev1.Secret{}
	if err := p.Reader.Get(ctx, p.secretKey(), secret); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if _, usable := cloud.NewPassword(string(secret.Data[host.KeySudoPassword])); !usable || !p.sameClaim(secret) {
		return false, nil
	}
	if err := owner.GiveBack(ctx, p.Client, secret, p.ownedBy()); err != nil {
		return false, err
	}
	return true, nil
}

// begun says whether anything was staged for the claim, in this install epoch or an earlier.
func (p *staging) begun(ctx context.Context) (bool, error) {
	secret := &corev1.Secret{}
	if err := p.Reader.Get(ctx, p.secretKey(), secret); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return string(secret.Data[host.KeyClaimToken]) == p.host.Spec.ClaimRef.Token, nil
}

// sameClaim: the Secret holds what belongs to this claim and install epoch.
func (p *staging) sameClaim(secret *corev1.Secret) bool {
	return string(secret.Data[host.KeyClaimToken]) == p.host.Spec.ClaimRef.Token &&
		string(secret.Data[host.KeyInstallEpoch]) == p.epoch()
}

func (p *staging) epoch() string { return strconv.FormatInt(p.host.Spec.Record.InstallEpoch, 10) }

// writeSecret makes the Secret, or changes the one there is. A claim whose credentials
// were never staged has none, as a rule. What refuses a new one, as a quota, says nothing
// of one that is there.
func (p *staging) writeSecret(ctx context.Context, credentials cloud.Credentials) error {
	key := p.secretKey()
	if p.reasonOf(host.CredentialsStagedCondition) == "" && p.createSecret(ctx, key, credentials) == nil {
		return nil
	}
	secret := &corev1.Secret{}
	err := p.Reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return p.createSecret(ctx, key, credentials)
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", key, err)
	}
	before := secret.DeepCopy()
	p.fill(secret, credentials)
	if equality.Semantic.DeepEqual(before, secret) {
		return nil
	}
	if err := p.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating Secret %s: %w", key, err)
	}
	return nil
}

func (p *staging) createSecret(ctx context.Context, key client.ObjectKey, credentials cloud.Credentials) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	p.fill(secret, credentials)
	if err := p.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating Secret %s: %w", key, err)
	}
	return nil
}

// fill sets our keys and keeps those of others. What is of another claim or epoch
// goes: its password, and the pin of its host key, with which a lost Host would be
// rebuilt. A password of this claim stays while the vendor seals it.
func (p *staging) fill(secret *corev1.Secret, credentials cloud.Credentials) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	data := secret.Data
	if !p.sameClaim(secret) {
		delete(data, host.KeySudoPassword)
		delete(data, host.KeyHostKey)
	}
	if credentials.Password.Present() {
		data[host.KeySudoPassword] = []byte(credentials.Password.Reveal())
	}
	data[host.KeySSHUsername] = []byte(credentials.SSHUser)
	data[host.KeyAddress] = []byte(p.host.Status.Server.IP)
	data[host.KeyInstallEpoch] = []byte(p.epoch())
	data[host.KeyClaimToken] = []byte(p.host.Spec.ClaimRef.Token)
	metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	if cluster := p.host.Spec.ClaimRef.Cluster; cluster != "" {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterv1.ClusterNameLabel, cluster)
	}
	secret.OwnerReferences = owner.Among(secret.OwnerReferences, p.ownedBy())
}

func (p *staging) ownedBy() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "ScalewayAppleSiliconMachine", Name: p.owner.Name, UID: p.owner.UID,
	}
}
