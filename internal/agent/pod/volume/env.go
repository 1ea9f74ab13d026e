package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
)

// envFile is where in the secret share the environment is, for a machine without a
// command.
const envFile = "env"

// WriteEnv leaves the environment where the guest of a Pod without a command finds
// it: in the file env of its secret share, as a POSIX shell reads it. The Pod was
// set up with Mode.Env.
func (s *Store) WriteEnv(ctx context.Context, p *corev1.Pod, list []string) error {
	d, err := s.dirs(ctx, p.UID, true)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	dir, err := os.OpenRoot(d.secret())
	if err != nil {
		return wrong("opening the directory for the environment: %w", err)
	}
	defer dir.Close()
	next := "." + envFile
	if err := dir.WriteFile(next, env.Script(list), 0o600); err != nil {
		return wrong("writing the environment: %w", err)
	}
	if err := dir.Rename(next, envFile); err != nil {
		return wrong("writing the environment: %w", err)
	}
	return nil
}

// dropEnv removes the environment of an attempt before this one, which has none.
func (s *Store) dropEnv(uid types.UID) error {
	ram, made := s.o.Secrets.Made()
	if !made {
		return nil
	}
	err := os.Remove(filepath.Join(dirs{ram: filepath.Join(ram, string(uid))}.secret(), envFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrong("removing an earlier environment: %w", err)
	}
	return nil
}
