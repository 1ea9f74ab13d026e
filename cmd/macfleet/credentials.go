package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/scaleway/scaleway-sdk-go/validation"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// vendorSecret is the chart's own name for the Secret with the vendor's credentials.
const vendorSecret = "macfleet-vendor"

// The variables that the vendor's own tools read a key from.
const (
	accessKeyVariable = "SCW_ACCESS_KEY"
	secretKeyVariable = "SCW_SECRET_KEY"
)

func newPoolCredentials() *cobra.Command {
	var d doer
	name := vendorSecret
	cmd := &cobra.Command{
		Use:   "credentials",
		Short: "Give the manager the vendor's key anew",
		Long: "Takes the key from " + accessKeyVariable + " and " + secretKeyVariable + ", where both are set, also before a\n" +
			"pipe; else asks for it, without an echo of the secret half; in a pipe it reads two lines, the access key first.\n" +
			"It says which it took. The secret half is in no argument, and nothing prints it.",
		Example: "  macfleet pool credentials\n  pass scaleway/macfleet | env -u " + accessKeyVariable + " macfleet pool credentials --yes",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := vendorKey(cmd.Context(), os.Getenv, cmd.InOrStdin(), terminal{})
			if err != nil {
				return err
			}
			return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
				namespace, err := d.managersNamespace(ctx, c)
				if err != nil {
					return act.Plan{}, err
				}
				secret, err := readSecret(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
				if err != nil {
					return act.Plan{}, err
				}
				if secret == nil {
					return act.Plan{}, fmt.Errorf("there is no Secret %s/%s: name the manager's namespace with -n, and the Secret with --secret", namespace, name)
				}
				return key.Plan(secret)
			})
		},
	}
	d.add(cmd)
	cmd.Flags().StringVar(&name, "secret", name, "the Secret with the vendor's credentials, as vendorCredentialsSecret of the chart names it")
	return cmd
}

// managersNamespace is the one that was typed, or the one in which a manager shows that it works.
func (d *doer) managersNamespace(ctx context.Context, c client.Client) (string, error) {
	if chosen := d.cluster.Chosen(); chosen != "" {
		return chosen, nil
	}
	s, err := snapshot.Load(ctx, c, "", snapshot.Leases)
	if err != nil || len(s.Leases) != 1 {
		return "", errors.Join(errors.New("in which namespace the manager runs cannot be told: name it with -n"), err)
	}
	return s.Leases[0].Namespace, nil
}

// vendorKey is what was given: by the environment, a person, or a pipe.
func vendorKey(ctx context.Context, env func(string) string, in io.Reader, ask asker) (act.VendorKey, error) {
	key := act.VendorKey{AccessKey: env(accessKeyVariable), SecretKey: env(secretKeyVariable), From: accessKeyVariable + " and " + secretKeyVariable + " of the environment"}
	var err error
	if key.AccessKey == "" || key.SecretKey == "" {
		if file, is := in.(*os.File); is && term.IsTerminal(int(file.Fd())) {
			key, err = askVendorKey(ctx, ask)
		} else {
			key, err = readVendorKey(in)
		}
	}
	switch {
	case err != nil:
		return act.VendorKey{}, err
	case !validation.IsAccessKey(key.AccessKey):
		return act.VendorKey{}, usageError{errors.New("the access key is not SCW and 17 capital letters or digits: nothing was sent")}
	case !validation.IsSecretKey(key.SecretKey):
		return act.VendorKey{}, usageError{errors.New("the secret key is not a UUID: nothing was sent")}
	}
	return key, nil
}

func askVendorKey(ctx context.Context, ask asker) (key act.VendorKey, err error) {
	if key.AccessKey, err = ask.line(ctx, "Access key: "); err != nil {
		return act.VendorKey{}, err
	}
	key.SecretKey, err = ask.hidden(ctx, "Secret key (it is not shown): ")
	key.SecretKey, key.From = strings.TrimSpace(key.SecretKey), "what was typed"
	return key, err
}

// readVendorKey reads two lines.
func readVendorKey(in io.Reader) (key act.VendorKey, err error) {
	lines := bufio.NewScanner(in)
	for _, into := range []*string{&key.AccessKey, &key.SecretKey} {
		if !lines.Scan() {
			return act.VendorKey{}, usageError{errors.New("no key was given: two lines, the access key and the secret key")}
		}
		*into = strings.TrimSpace(lines.Text())
	}
	key.From = "what was piped"
	return key, lines.Err()
}
