package conformance

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/macfleet/macfleet/sandbox/world"
)

// providerVersion is the one that the templates' repository says it has.
const providerVersion = "v0.1.0"

// key is the fleet's SSH key that the pool's Macs know.
type key struct{ private, public []byte }

// writeRepository makes of a release's templates a repository for clusterctl, below dir, and
// returns clusterctl's configuration. The templates are as they are released, but for what a
// sandbox has otherwise, and for two more flavours: rolling, which replaces Machines, and
// remediation, whose health check looks at the condition that Cluster API's specs set.
func writeRepository(released, dir string, fleet key) (string, error) {
	of := filepath.Join(dir, "infrastructure-macfleet", providerVersion)
	if err := os.CopyFS(of, os.DirFS(released)); err != nil {
		return "", fmt.Errorf("copying the templates: %w", err)
	}
	for _, template := range templates {
		text, err := os.ReadFile(filepath.Join(released, template.from))
		if err != nil {
			return "", fmt.Errorf("reading a template: %w", err)
		}
		made, err := forSandbox(string(text), fleet, template.changes)
		if err != nil {
			return "", fmt.Errorf("%s: %w", template.from, err)
		}
		if err := os.WriteFile(filepath.Join(of, template.to), []byte(made), 0o600); err != nil {
			return "", fmt.Errorf("writing a template: %w", err)
		}
	}
	components := filepath.Join(of, "infrastructure-components.yaml")
	if err := os.WriteFile(components, nil, 0o600); err != nil {
		return "", fmt.Errorf("writing the repository: %w", err)
	}
	config := filepath.Join(dir, "clusterctl.yaml")
	text := fmt.Sprintf("providers: [{name: macfleet, type: InfrastructureProvider, url: %q}]\nSCW_ZONE: %s\n", components, world.Zone)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing clusterctl's configuration: %w", err)
	}
	return config, nil
}

// change replaces a piece of a template, which must be there.
type change struct{ from, to string }

var templates = []struct {
	from, to string
	changes  []change
}{
	{from: "cluster-template.yaml", to: "cluster-template.yaml"},
	{from: "cluster-template-topology.yaml", to: "cluster-template-topology.yaml"},
	{from: "cluster-template.yaml", to: "cluster-template-rolling.yaml", changes: []change{
		{"      type: OnDelete\n", "      type: RollingUpdate\n      rollingUpdate: {maxSurge: 0, maxUnavailable: 1}\n"},
	}},
	{from: "cluster-template-fleet-mhc.yaml", to: "cluster-template-remediation.yaml", changes: []change{
		{"    unhealthyNodeConditions:\n", "    unhealthyNodeConditions:\n      - {type: e2e.remediation.condition, status: \"False\", timeoutSeconds: 5}\n"},
		{"agentRestartTimeoutSeconds: 180", "agentRestartTimeoutSeconds: 10"},
		{"rebootTimeoutSeconds: 900", "rebootTimeoutSeconds: 30"},
	}},
}

// tart in a profile: the sandbox's Macs have theirs. In its place a change soaks for seconds,
// after which a Cluster is at rest.
var tart = regexp.MustCompile(`(?m)^  tart:\n(?:    .*\n)+`)

// forSandbox makes a template one of a sandbox's: its Cluster may be deleted with all its
// Macs, and its fleet has the SSH key that the pool's Macs know.
func forSandbox(text string, fleet key, changes []change) (string, error) {
	if !tart.MatchString(text) {
		return "", fmt.Errorf("no profile that names tart")
	}
	text = tart.ReplaceAllString(text, "  rollout: {soak: 5s}\n")
	changes = append([]change{{
		"kind: Cluster\nmetadata:\n", "kind: Cluster\nmetadata:\n  annotations: {infrastructure.cluster.x-k8s.io/allow-delete: \"\"}\n",
	}}, changes...)
	for _, c := range changes {
		if !strings.Contains(text, c.from) {
			return "", fmt.Errorf("there is no %q", c.from)
		}
		text = strings.Replace(text, c.from, c.to, 1)
	}
	encode := base64.StdEncoding.EncodeToString
	return text + fmt.Sprintf(fleetKey, encode(fleet.private), encode(fleet.public)), nil
}

const fleetKey = `---
apiVersion: v1
kind: Secret
metadata:
  name: ${CLUSTER_NAME}-macs-ssh
  namespace: ${NAMESPACE}
  labels:
    cluster.x-k8s.io/cluster-name: ${CLUSTER_NAME}
    clusterctl.cluster.x-k8s.io/move: ""
data:
  ssh-privatekey: %s
  ssh-publickey: %s
`
