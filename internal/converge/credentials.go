package converge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/proofreboot"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// credentials delivers what the agent needs to join, when the document holds
// it. Without it whatever is there stays: leaving is another verb.
// They wait until a proof reboot that is owed was made, so that no Mac becomes a
// Node that does not come back by itself; the agent waits for them.
type credentials struct{ *step.Env }

func (c credentials) step() step.Step {
	held := false
	return step.Step{
		Name: "credentials",
		About: "Writes what the agent needs to join the cluster: the join permit (root's, one use, one hour) and a kubeconfig " +
			"with a one-hour bootstrap token (0600, the console user's), both in " + document.ConfigDir + ". They are held back " +
			"while a proof reboot is owed.",
		Undo: "`sudo tart-kubelet leave` removes both and the certificates that came of them.",
		Note: func() string {
			if held {
				return "held back until the proof reboot was made"
			}
			return ""
		},
		TakeBack: func(context.Context) error {
			return c.Remove(document.BootstrapKubeconfig, document.JoinPermitFile, document.AgentCertDir)
		},
		Check: func(ctx context.Context) ([]string, error) {
			wanted, err := c.joinFiles()
			if err != nil || len(wanted) == 0 {
				return nil, err
			}
			if held, err = proofreboot.Pending(ctx, c.Env); err != nil || held {
				return nil, err
			}
			return c.Differing(ctx, wanted...)
		},
		Act: func(ctx context.Context) error {
			wanted, err := c.joinFiles()
			if err != nil {
				return err
			}
			if err := launchd.RequireAgentRestart(ctx, c.Mac.Files); err != nil {
				return err
			}
			for _, f := range wanted {
				if err := step.Write(ctx, c.Mac.Files, f); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// joinFiles are the permit and the bootstrap kubeconfig. The permit comes first:
// an agent that finds a new token finds its permit too. The agent reads the
// permit and cannot forge one, for root owns it.
func (c credentials) joinFiles() ([]step.File, error) {
	join := c.Desired.Join
	if join == nil {
		return nil, nil
	}
	permit, err := json.Marshal(join.Permit)
	if err != nil {
		return nil, fmt.Errorf("encoding the join permit: %w", err)
	}
	kubeconfig, err := bootstrapKubeconfig(join)
	if err != nil {
		return nil, err
	}
	return []step.File{
		{Path: document.JoinPermitFile, Data: append(permit, '\n'), Attr: step.StaffAttr(step.Root, 0o640)},
		{Path: document.BootstrapKubeconfig, Data: kubeconfig, Attr: step.StaffAttr(c.Desired.Host.User, 0o600)},
	}, nil
}

// The few fields of a kubeconfig that joining takes, as kubectl's documentation
// lists them. JSON is YAML, so that any client reads it.
type (
	kubeconfig struct {
		APIVersion     string         `json:"apiVersion"`
		Kind           string         `json:"kind"`
		Clusters       []namedCluster `json:"clusters"`
		Users          []namedUser    `json:"users"`
		Contexts       []namedContext `json:"contexts"`
		CurrentContext string         `json:"current-context"`
	}
	namedCluster struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	}
	cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	}
	namedUser struct {
		Name string `json:"name"`
		User user   `json:"user"`
	}
	user struct {
		Token string `json:"token"`
	}
	namedContext struct {
		Name    string      `json:"name"`
		Context kubeContext `json:"context"`
	}
	kubeContext struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	}
)

func bootstrapKubeconfig(join *document.Join) ([]byte, error) {
	const name = "bootstrap"
	data, err := json.Marshal(kubeconfig{
		APIVersion:     "v1",
		Kind:           "Config",
		Clusters:       []namedCluster{{name, cluster{join.Server, join.CA}}},
		Users:          []namedUser{{name, user{join.Token}}},
		Contexts:       []namedContext{{name, kubeContext{name, name}}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the bootstrap kubeconfig: %w", err)
	}
	return append(data, '\n'), nil
}
