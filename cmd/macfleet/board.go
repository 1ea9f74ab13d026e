package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/cli/board"
	"github.com/macfleet/macfleet/internal/cli/cluster"
)

func newBoard() *cobra.Command {
	var v verb
	var port int
	cmd := &cobra.Command{
		Use:   "board",
		Short: "A page in your browser: the pool, the fleets, what waits, and every story",
		Long: "Serves a read-only page on this machine's loopback and prints its address, until Ctrl-C. The page shows\n" +
			"what your kubeconfig may see, and changes as the cluster does. Who knows the address sees the page: its path\n" +
			"is a secret, made anew each time.",
		Example: "  macfleet board\n  macfleet board -n macfleet-system --port 8080",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usageError{fmt.Errorf("--port %d is not a port", port)}
			}
			return v.board(cmd, port)
		},
	}
	v.add(cmd)
	cmd.Flags().IntVar(&port, "port", 0, "port on this machine (default: a free one)")
	return cmd
}

// board serves the page until a person ends it, which is no failure.
func (v *verb) board(cmd *cobra.Command, port int) error {
	ctx := cmd.Context()
	feed, err := v.feed(ctx)
	if err != nil {
		return err
	}
	server, err := board.NewServer(ctx, feed)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is taken: give another --port, or leave it out: %w", port, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is the board, until Ctrl-C\n", server.URL(listener))
	return server.Serve(ctx, listener)
}

func (v *verb) feed(ctx context.Context) (*board.Feed, error) {
	config, err := v.cluster.Config()
	if err != nil {
		return nil, err
	}
	c, err := cluster.NewClient(config)
	if err != nil {
		return nil, err
	}
	watches, err := cluster.NewCache(config, v.cluster.Chosen())
	if err != nil {
		return nil, err
	}
	feed, err := board.NewFeed(ctx, c, watches, v.cluster.Chosen())
	if err != nil {
		return nil, err
	}
	return feed, feed.Start(ctx)
}
