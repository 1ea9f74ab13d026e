package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Taint keeps Pods away that do not tolerate it. A Node has one at most of a key
// and an effect.
type Taint struct {
	// key of the taint: name or domain/name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('node.kubernetes.io/') && !self.startsWith('node-role.kubernetes.io/')",message="taints below node.kubernetes.io/ and node-role.kubernetes.io/ are Kubernetes' own: use a prefix of your own"
	Key string `json:"key,omitempty"`
	// value of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Value string `json:"value,omitempty"`
	// effect on Pods that do not tolerate the taint.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`
}

// NodeSettings is how a Mac looks as a Node.
type NodeSettings struct {
	// labels set when the Node registers, and kept on it. Labels a node may not
	// set on itself are refused, and those that are facts of each Mac.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || k.matches('^([^/]*[.])?(node|kubelet)[.]kubernetes[.]io/') || k == 'topology.kubernetes.io/region')",message="a node may not set labels below kubernetes.io/ and k8s.io/ on itself, such as node-role.kubernetes.io/ and node-restriction.kubernetes.io/, but for node.kubernetes.io/: use a prefix of your own"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['kubernetes.io/os', 'kubernetes.io/arch', 'kubernetes.io/hostname', 'topology.kubernetes.io/zone', 'node.kubernetes.io/instance-type', 'tuist.dev/fleet']))",message="kubernetes.io/os, kubernetes.io/arch, kubernetes.io/hostname, topology.kubernetes.io/zone, node.kubernetes.io/instance-type and tuist.dev/fleet say what each Mac is: leave them out, no profile changes them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317)",message="a label has a key of at most 317 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('[ \\n]'))",message="the key of a label has no blanks and no line breaks: write one such as example.com/team"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// taints set when the Node registers, and kept on it. Default, when absent:
	// tuist.dev/macos=true:NoSchedule. One with the effect NoExecute evicts at
	// once, on all Macs.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=16
	Taints *[]Taint `json:"taints,omitempty"`

	// maxVMs is how many guests run at once. Apple's licence allows two.
	// Default: 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	MaxVMs int32 `json:"maxVMs,omitempty"`

	// kubeletPort is where the API server reaches the Mac for logs, exec and port-forward.
	// 0: nowhere, and they do not work. Default: 10250.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(self in [22, 5900])",message="22 and 5900 are taken on a Mac: SSH and Screen Sharing listen there"
	KubeletPort *int32 `json:"kubeletPort,omitempty"`
}

// TartRelease is the release of tart to install.
type TartRelease struct {
	// version without a leading v, e.g. 2.30.0.
	// +required
	// +kubebuilder:validation:MaxLength=31
	// +kubebuilder:validation:Pattern=`^[0-9][0-9A-Za-z.-]*$`
	Version string `json:"version,omitempty"`
	// source is the URL of a .tar.gz that holds tart.app. The server proves itself: https.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https://[^\s]+$`
	Source string `json:"source,omitempty"`
	// sha256 of that file, in lower-case hex.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
	// teamID is the team of Apple's developer program that must have signed tart.app.
	// Default: any valid signature will do.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9A-Z]{10}$`
	TeamID string `json:"teamID,omitempty"`
}

// EgressRule is something that guests may reach.
type EgressRule struct {
	// cidr is an IPv4 or IPv6 network.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="is no network: write one such as 10.1.0.0/16, without host bits"
	CIDR string `json:"cidr,omitempty"`
	// ports, TCP and UDP. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
}

// GuestEgress is what guests may reach beside the internet.
type GuestEgress struct {
	// allow are exceptions from denyPrivate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Allow []EgressRule `json:"allow,omitempty"`
	// denyPrivate keeps guests from private, carrier-grade, link-local and other
	// special addresses. Default: true.
	// +optional
	DenyPrivate *bool `json:"denyPrivate,omitempty"`
}

// SSHIngress says who reaches the Mac's own SSH.
type SSHIngress struct {
	// allow are the networks that may. They must hold the manager's address.
	// Default: everybody.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="is no network: write one such as 203.0.113.0/24, without host bits"
	Allow []string `json:"allow,omitempty"`
}

// HostIngressRule is who may open connections to ports of the Mac itself.
type HostIngressRule struct {
	// cidr is the IPv4 or IPv6 network that they come from; 0.0.0.0/0 and ::/0 are
	// everybody.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="is no network: write one such as 203.0.113.0/24, without host bits"
	CIDR string `json:"cidr,omitempty"`
	// ports of the Mac, TCP and UDP.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
}

// HostIngress says who reaches the Mac itself, beside SSH and the kubelet's port.
type HostIngress struct {
	// allow are those that may. All else that comes in is dropped. It opens nothing
	// to guests, and not the SSH port where sshIngress shuts it. Default: nobody.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Allow []HostIngressRule `json:"allow,omitempty"`
}

// NetworkSettings are what guests may reach, and who may reach the Mac.
type NetworkSettings struct {
	// subnet of the guests, a private IPv4 network of /16 to /29; the Mac has its
	// first address. Default: 192.168.64.0/24.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 16 && cidr(self).prefixLength() <= 29 && (cidr('10.0.0.0/8').containsCIDR(self) || cidr('172.16.0.0/12').containsCIDR(self) || cidr('192.168.0.0/16').containsCIDR(self))",message="is no private IPv4 network of /16 to /29, such as 192.168.64.0/24"
	Subnet string `json:"subnet,omitempty"`
	// +optional
	GuestEgress GuestEgress `json:"guestEgress,omitempty,omitzero"`
	// +optional
	SSHIngress SSHIngress `json:"sshIngress,omitempty,omitzero"`
	// +optional
	HostIngress HostIngress `json:"hostIngress,omitempty,omitzero"`
}

// SSHAccess says who logs in to the Macs over SSH.
type SSHAccess struct {
	// authorizedKeys are the public keys that may, beside the fleet's own: each a
	// line such as "ssh-ed25519 AAAA… name", without options. Keys of the vendor's
	// project that are not here, and those in ~/.ssh, do not log in to a Mac that was
	// bootstrapped. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh[.]com|sk-ecdsa-sha2-nistp256@openssh[.]com) [A-Za-z0-9+/]{32,}={0,3}( [^[:cntrl:]]*)?$')",message="is no SSH public key: write its line, such as ssh-ed25519 AAAA… name, without options before it"
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
}

// SessionSettings are about the console session that macOS guests need.
type SessionSettings struct {
	// autoLogin keeps a console session alive. Default: true.
	// +optional
	AutoLogin *bool `json:"autoLogin,omitempty"`
	// screenSharing keeps macOS' Screen Sharing on. Off turns Remote Management off,
	// too. The firewall leaves its port, 5900, to SSH tunnels, unless
	// network.hostIngress names it. Default: false.
	// +optional
	ScreenSharing bool `json:"screenSharing,omitempty"`
}

// StorageSettings are about the volume that guests and images live on.
type StorageSettings struct {
	// quota is the ceiling of a volume made for them, 40G at least. Default: there
	// is no such volume, and they live in the user's home.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).size() <= 32",message="is longer than 32 characters: write a size such as 300G"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('40G')) || quantity(string(self)).compareTo(quantity('40G')) == 0",message="is too small for one guest and its image: give 40G or more"
	Quota *resource.Quantity `json:"quota,omitempty"`
}

// ImageSettings say which images Macs have.
//
// +kubebuilder:validation:XValidation:rule="(has(self.gcLowPercent) ? self.gcLowPercent : 80) < (has(self.gcHighPercent) ? self.gcHighPercent : 85)",messageExpression="'gcLowPercent %d must be below gcHighPercent %d'.format([has(self.gcLowPercent) ? self.gcLowPercent : 80, has(self.gcHighPercent) ? self.gcHighPercent : 85])"
type ImageSettings struct {
	// prePull are images that each Mac has before a Pod asks for them:
	// host/namespace/name with a tag, which is looked up each hour, or a digest. They
	// are pulled without imagePullSecrets. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9_][A-Za-z0-9._-]*)+(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$')",message="is no image of a registry: write one such as registry.example.com/macos/base:v1"
	PrePull []string `json:"prePull,omitempty"`
	// gcHighPercent of the volume that holds images: above it, those that no Pod uses
	// are removed, least recently used first. 85 at most: a fuller volume is
	// DiskPressure, which removes them, too. Default: 85.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=85
	GCHighPercent int32 `json:"gcHighPercent,omitempty"`
	// gcLowPercent is where the removal ends. Default: 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	GCLowPercent int32 `json:"gcLowPercent,omitempty"`
}

// PodSettings say what Pods may have of a Mac.
type PodSettings struct {
	// hostPaths are directories of the Mac that hostPath volumes may be, or be in.
	// Default: none, and Pods with such a volume are refused.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^(/[^/:,[:cntrl:]]+)+$') && !self.matches('/[.][.]?(/|$)')",message="is no path of a directory below /: write one such as /Users/Shared/cache, without . and .., colons, commas and control characters"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('(?i)^/(volumes|opt|([.][^/]*|private|var|etc|tmp|usr|bin|sbin|dev|cores|system|library|applications|opt/homebrew|volumes/(macfleet|macintosh hd))(/.*)?)$')",message="is a directory of macOS or of the node's own files, as all of /private, /var, /etc, /tmp, /usr, /System, /Library, /Applications, /opt/homebrew and /Volumes/macfleet are: choose another, such as /Users/Shared/cache"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('(?i)^/users(/.*)?$') || self.matches('(?i)^/users/shared(/.*)?$')",message="is in the home of a user, or holds homes: choose /Users/Shared or a directory below it"
	HostPaths []string `json:"hostPaths,omitempty"`
}

// RolloutPolicy says how a change reaches Macs that run already.
type RolloutPolicy struct {
	// maxUnavailable Macs are changed at once; one whose Node is not Ready counts for
	// 15 minutes. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
	// canary Macs take each change first, one after the other; none of them may
	// fail. 0: there is none. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Canary *int32 `json:"canary,omitempty"`
	// soak is how long a changed Mac must have been well before the next is changed.
	// Default: 2m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.size() <= 32 && self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) <= duration('24h')",message="write a time between 0s and 24h, such as 90s, 2m or 1h30m"
	Soak *metav1.Duration `json:"soak,omitempty"`
	// paused: no Mac that runs is changed or mended; those that have begun end it.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// MacNodeProfileSpec is the desired state of Macs as nodes.
type MacNodeProfileSpec struct {
	// tart to install. Default: what the image of the Mac has.
	// +optional
	Tart *TartRelease `json:"tart,omitempty"`
	// +optional
	Node NodeSettings `json:"node,omitempty,omitzero"`
	// +optional
	Network NetworkSettings `json:"network,omitempty,omitzero"`
	// +optional
	SSHAccess SSHAccess `json:"sshAccess,omitempty,omitzero"`
	// +optional
	Session SessionSettings `json:"session,omitempty,omitzero"`
	// +optional
	Storage StorageSettings `json:"storage,omitempty,omitzero"`
	// +optional
	Images ImageSettings `json:"images,omitempty,omitzero"`
	// +optional
	Pods PodSettings `json:"pods,omitempty,omitzero"`
	// proofReboot reboots each Mac once after its installation, before it joins, to
	// see that everything comes back by itself. Default: true.
	// +optional
	ProofReboot *bool `json:"proofReboot,omitempty"`
	// +optional
	Rollout RolloutPolicy `json:"rollout,omitempty,omitzero"`
	// maxOrdered is how many servers may exist that Machines of this profile ordered
	// (spec.acquisition), orders on their way included; with so many, nothing more is
	// ordered. Servers bill for a day at least. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxOrdered *int32 `json:"maxOrdered,omitempty"`
	// agentVersion is the version of the agent that is waited for: Ready is not
	// True before the manager gives Macs this one. The build itself always is the
	// manager's. Default: any.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z][0-9A-Za-z._+-]*$`
	AgentVersion string `json:"agentVersion,omitempty"`
}

// ProfileRevision is a profile as all of its Macs were once.
type ProfileRevision struct {
	// revision as status.revision was then.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// rolledOutAt is when the last Mac had it.
	// +required
	RolledOutAt metav1.Time `json:"rolledOutAt,omitempty,omitzero"`
	// spec of the profile then, without rollout, which says how and not what.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// MacNodeProfileStatus is how far the Macs are with their profile.
type MacNodeProfileStatus struct {
	// observedGeneration of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// revision is the hash of what all Macs of this profile should look like, the
	// agent's build included.
	// +optional
	Revision string `json:"revision,omitempty"`
	// machines of this profile.
	// +optional
	Machines int32 `json:"machines"`
	// available Machines: their Nodes are Ready.
	// +optional
	Available int32 `json:"available"`
	// updated Machines: their Macs are at the revision.
	// +optional
	Updated int32 `json:"updated"`
	// history is what was rolled out to all Macs, the last first: macfleet rollout undo
	// goes back there. Nothing is decided by it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	History []ProfileRevision `json:"history,omitempty"`
	// conditions: Ready, RolledOut, Halted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MacNodeProfile is the desired state of Macs as nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mnp,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updated`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="RolledOut")].reason`
// +kubebuilder:printcolumn:name="Max VMs",type=integer,priority=1,JSONPath=`.spec.node.maxVMs`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MacNodeProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MacNodeProfileSpec `json:"spec,omitempty,omitzero"`
	// status begins with an observedGeneration that no spec has, so that whoever waits
	// for the profile waits for its first status.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status MacNodeProfileStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (p *MacNodeProfile) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions, for the Cluster API helpers.
func (p *MacNodeProfile) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// MacNodeProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type MacNodeProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MacNodeProfile `json:"items"`
}

// UpdateAnnotation on an infra machine says that it is this Mac's turn to be
// changed to the revision in its value, or to be mended. Written by macfleet.
const UpdateAnnotation = "infrastructure.cluster.x-k8s.io/update"

// TurnAnnotation on an infra machine remembers its last turn: when it began, and
// which Pods ran on the Mac then. Written by macfleet.
const TurnAnnotation = "infrastructure.cluster.x-k8s.io/turn"

// KeptAnnotation on a Node names the labels and taints that the profile keeps
// there, so that those it no longer wants can be told from foreign ones. Written by
// macfleet.
const KeptAnnotation = "infrastructure.cluster.x-k8s.io/kept"
