package mac

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// A delivered Mac shares its screen, which is switched off for good by launchd's
// override and Remote Management's own tool, and outlives no installation.
func TestScreenSharing(t *testing.T) {
	b := startBench(t, nil)
	b.grant()
	on := func() bool { return b.sh("launchctl print system/"+wire.ScreenSharing, "").rc == 0 }
	managed := func() bool {
		_, err := os.Stat(filepath.Join(b.Root(), wire.RemoteManagementFile))
		return err == nil
	}
	if !on() || !managed() {
		t.Error("a delivered Mac does not share its screen")
	}
	const tool = "/System/Library/CoreServices/RemoteManagement/ARDAgent.app/Contents/Resources/kickstart -deactivate -stop"
	if got := b.sh(tool, ""); got.rc == 0 || !managed() {
		t.Errorf("the user turned Remote Management off: %+v", got)
	}
	b.asRoot(tool)
	b.asRoot("launchctl disable system/" + wire.ScreenSharing)
	if !on() || managed() {
		t.Error("disable ended the job, or Remote Management is still on")
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if on() {
		t.Error("a boot loads what is disabled")
	}
	if got, err := b.Registrations(); err != nil || got.Count != 0 {
		t.Errorf("%d background items, %v: macOS' own are none", got.Count, err)
	}
	if err := b.Install(t.Context(), Install{Password: testPassword, AuthorizedKeys: []string{b.authorizedKey()}}); err != nil {
		t.Fatal(err)
	}
	if !on() || !managed() {
		t.Error("a fresh installation does not share its screen")
	}
}
