package macostest

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// remoteManagement is there while Remote Management is on.
const remoteManagement = "/Library/Application Support/Apple/Remote Desktop/RemoteManagement.launchd"

type sharing struct{ m *Mac }

var _ macos.Sharing = sharing{}

func (s sharing) StopRemoteManagement(context.Context) error {
	if err := s.m.change("stop remote management"); err != nil {
		return err
	}
	return files(s).Remove(remoteManagement)
}
