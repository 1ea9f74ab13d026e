package document

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Revision says what all Macs of a profile should look like: the SHA-256, in
// lower-case hex, of the canonical document without what differs between Macs
// (Host), between fleets (UpgradeKey), or between two runs (Join, Secrets,
// Restart). The agent's build is part of it. A Mac whose last applied revision
// differs has drifted.
func Revision(d Desired) string {
	shared := struct {
		Schema  string  `json:"schema"`
		Agent   Agent   `json:"agent"`
		Node    Node    `json:"node"`
		Mac     Mac     `json:"mac"`
		Images  Images  `json:"images,omitzero"`
		Pods    Pods    `json:"pods,omitzero"`
		Kubelet Kubelet `json:"kubelet,omitzero"`
	}{DesiredSchema, d.Agent, canonicalNode(d.Node), d.Mac, d.Images, d.Pods, d.Kubelet}
	// Strings, integers and maps of strings always encode, and package json
	// sorts the keys of maps.
	data, _ := json.Marshal(shared)
	return Hash(data)
}

// canonicalNode makes nodes equal that encode to the same document: an empty
// map of labels is a missing one.
func canonicalNode(n Node) Node {
	if len(n.Labels) == 0 {
		n.Labels = nil
	}
	return n
}

// Hash is the SHA-256 of data in lower-case hex, as Health.ConfigHash and names
// of slots have it.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
