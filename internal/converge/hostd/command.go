package hostd

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Command returns the verb hostd.
func Command() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "hostd",
		Short: "Keep firewall, console session and SSH of this Mac alive; launchd runs it as root",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &converge.ExitError{Code: document.ExitUsage, Err: errors.New("only root can do this")}
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			o.Mac, o.Build = macos.Local(), build(os.Args[0])
			return run(ctx, o, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		},
	}
	c.Flags().StringVar(&o.ConfigFile, "config", document.ConfigFile, "configuration that converge wrote")
	c.Flags().StringVar(&o.Socket, "socket", document.HostdSocket, "local socket to answer on")
	return c
}

// build is the build that this process was started from: the name of the folder of its
// file, links resolved, where that is a SHA-256.
func build(argv0 string) string {
	real, err := filepath.EvalSymlinks(argv0)
	if err != nil {
		return ""
	}
	if slot := filepath.Base(filepath.Dir(real)); document.IsSHA256(slot) {
		return slot
	}
	return ""
}
