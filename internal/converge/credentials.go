package converge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// credentials delivers what the agent needs to join, when the document holds
// it. Without it whatever is there stays: leaving is another verb.
func (t *target) credentials() step {
	return step{
		name: "credentials",
		check: func(ctx context.Context) ([]string, error) {
			wanted, err := t.joinFiles()
			if err != nil {
				return nil, err
			}
			return t.differing(ctx, wanted...)
		},
		act: func(ctx context.Context) error {
			wanted, err := t.joinFiles()
			if err != nil {
				return err
			}
			if err := t.owe(ctx, owedRestart); err != nil {
				return err
			}
			for _, f := range wanted {
				if err := write(ctx, t.Mac.Files, f); err != nil {
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
func (t *target) joinFiles() ([]file, error) {
	join := t.desired.Join
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
	return []file{
		{document.JoinPermitFile, append(permit, '\n'), macos.Attr{Mode: 0o640, Owner: root, Group: staff}},
		{document.BootstrapKubeconfig, kubeconfig, macos.Attr{Mode: 0o600, Owner: t.desired.Host.User, Group: staff}},
	}, nil
}

// config writes the agent's configuration.
func (t *target) config() step {
	wanted := func() (file, error) {
		data, err := document.EncodeConfig(t.desired)
		return file{document.ConfigFile, data, macos.Attr{Mode: 0o640, Owner: root, Group: staff}}, err
	}
	return step{
		name: "config",
		check: func(ctx context.Context) ([]string, error) {
			f, err := wanted()
			if err != nil {
				return nil, err
			}
			return t.differing(ctx, f)
		},
		act: func(ctx context.Context) error {
			f, err := wanted()
			if err != nil {
				return err
			}
			if err := t.owe(ctx, owedRestart); err != nil {
				return err
			}
			return write(ctx, t.Mac.Files, f)
		},
	}
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
