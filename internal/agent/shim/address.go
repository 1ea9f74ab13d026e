package shim

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// addressed is a guest whose commands are told its address where they ask for it.
type addressed struct {
	vm.Guest

	mu    sync.Mutex
	known string
}

// Exec runs nothing before the guest has an address that the command asks for.
func (g *addressed) Exec(ctx context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
	if asksAddress(c) {
		address, err := g.address(ctx)
		if err != nil {
			return 0, err
		}
		c.Argv, c.Env = replaced(c.Argv, address), replaced(c.Env, address)
	}
	return g.Guest.Exec(ctx, c, s)
}

// address is asked once: a guest keeps what it was leased for as long as it runs.
func (g *addressed) address(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known != "" {
		return g.known, nil
	}
	found, err := g.Address(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", vm.ErrGuestUnreachable, err)
	}
	g.known = found.String()
	return g.known, nil
}

func asksAddress(c vm.GuestCommand) bool {
	for _, list := range [][]string{c.Argv, c.Env} {
		for _, text := range list {
			if strings.Contains(text, vm.GuestAddress) {
				return true
			}
		}
	}
	return false
}

func replaced(list []string, address string) []string {
	told := make([]string, len(list))
	for i, text := range list {
		told[i] = strings.ReplaceAll(text, vm.GuestAddress, address)
	}
	return told
}
