package macos

import "context"

// Sharing is what lets people see and drive the screen from afar, beside launchd's
// own job for it.
type Sharing interface {
	// StopRemoteManagement turns Apple Remote Desktop's agent off.
	StopRemoteManagement(ctx context.Context) error
}

// remoteDesktop is Remote Management of this Mac, through Apple's own tool for it.
type remoteDesktop struct{}

var _ Sharing = remoteDesktop{}

const remoteDesktopCommand = "/System/Library/CoreServices/RemoteManagement/ARDAgent.app/Contents/Resources/kickstart"

// StopRemoteManagement implements Sharing.
func (remoteDesktop) StopRemoteManagement(ctx context.Context) error {
	_, err := run(ctx, remoteDesktopCommand, "-deactivate", "-stop")
	return err
}
