//go:build !linux

package stage

import "errors"

func mountSmall(string, int64) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
