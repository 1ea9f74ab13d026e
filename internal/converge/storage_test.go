package converge

import (
	"errors"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const quota = 100e9

func withVolume(t *testing.T) *fixture {
	f := newFixture(t)
	f.desired.Mac.GuestQuotaBytes = quota
	return f
}

func (f *fixture) guestVolume() macos.Volume {
	f.t.Helper()
	v, err := f.mac.Interfaces().Volumes.Volume(f.t.Context(), document.GuestVolume)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

func TestVolumeIsMadeOnce(t *testing.T) {
	f := withVolume(t)
	f.converge()
	if v := f.guestVolume(); v.QuotaBytes != quota || !v.Owners {
		t.Errorf("%+v", v)
	}
	for name, want := range map[string]string{
		document.GuestVolume: "root:wheel 0755", guestDir: "m1:staff 0700", document.PodVolumesDir: "m1:staff 0700", noIndex: "root:wheel 0644", volumeFile: "root:wheel 0600",
	} {
		info, err := f.mac.Interfaces().Files.Stat(t.Context(), name)
		if err != nil || info.Attr.String() != want {
			t.Errorf("%s is %s, want %s (%v)", name, info.Attr, want, err)
		}
	}
	f.mac.Reboot()
	if got := outcomes(f.converge())["storage"]; got != document.Unchanged || f.mac.AddedVolumes() != 1 {
		t.Errorf("storage %s, %d volumes made", got, f.mac.AddedVolumes())
	}
}

// What the user could put in the place of a folder, as long as the volume was his,
// is not followed.
func TestLinkInThePlaceOfAFolderIsNotFollowed(t *testing.T) {
	f := withVolume(t)
	f.converge()
	files := f.mac.Interfaces().Files
	if err := files.MakeDir(t.Context(), document.GuestVolume, macos.Attr{Mode: 0o755, Owner: "m1", Group: staff}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(files.Remove(guestDir), files.Link(guestDir, sudoersDir)); err != nil {
		t.Fatal(err)
	}
	f.refused("storage", document.Human, guestDir+" is not a folder")
	f.mac.Unmount(f.guestVolume().UUID) // the look sees no folder then
	f.refused("storage", document.Human, guestDir+" is not a folder")
	if info, err := files.Stat(t.Context(), sudoersDir); err != nil || info.Owner != root {
		t.Errorf("%s is %s (%v)", sudoersDir, info.Attr, err)
	}
}

// With or without a quota decides where tart has guests: none may run when that
// changes, and until then nothing says so to the agent.
func TestHomeOfGuestsDoesNotMoveUnderThem(t *testing.T) {
	for name, c := range map[string]struct{ before, after int64 }{"comes": {0, quota}, "goes": {quota, 0}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.desired.Mac.GuestQuotaBytes = c.before
			f.converge()
			f.mac.Console.Guests = 1
			f.converge() // nothing moves
			config := f.content(document.ConfigFile)
			f.desired.Mac.GuestQuotaBytes = c.after
			f.stage("second build")
			f.refused("storage", document.Wait, "waits until no guest runs")
			f.nothingDone()
			if f.content(document.ConfigFile) != config {
				t.Error("the agent is told of another place")
			}
			f.mac.Console.Guests = 0
			f.converge()
		})
	}
}

func TestVolumeIsMountedAgain(t *testing.T) {
	f := withVolume(t)
	f.converge()
	before := f.guestVolume()
	f.mac.Unmount(before.UUID)
	f.converge()
	if f.guestVolume().UUID != before.UUID || f.mac.AddedVolumes() != 1 {
		t.Errorf("%+v, %d made", f.guestVolume(), f.mac.AddedVolumes())
	}
}

func TestVolumeIsNeverResized(t *testing.T) {
	f := withVolume(t)
	f.converge()
	f.desired.Mac.GuestQuotaBytes = 2 * quota
	f.refused("storage", document.Human, "never resized")
	if f.mac.AddedVolumes() != 1 || f.guestVolume().QuotaBytes != quota {
		t.Errorf("%+v", f.guestVolume())
	}
}

func TestVolumesOfOthersAreLeftAlone(t *testing.T) {
	f := withVolume(t)
	v := f.mac.AddVolume("macfleet", quota)
	f.refused("storage", document.Human, "did not make")
	f.gone(volumeFile)
	if _, err := f.mac.Interfaces().Volumes.Volume(t.Context(), v.UUID); err != nil {
		t.Error(err)
	}
}

func TestVolumeElsewhereIsSaid(t *testing.T) {
	f := withVolume(t)
	f.converge()
	v := f.guestVolume()
	f.mac.Unmount(v.UUID)
	f.mac.AddVolume("macfleet", 0)
	f.refused("storage", document.Human, "/Volumes/macfleet 1")
}

func TestVolumeThatIsGone(t *testing.T) {
	f := withVolume(t)
	f.converge()
	if err := f.mac.Interfaces().Volumes.Remove(t.Context(), f.guestVolume().UUID); err != nil {
		t.Fatal(err)
	}
	f.refused("storage", document.Reinstall, "is gone")
	if f.mac.AddedVolumes() != 1 {
		t.Error("a second volume was made")
	}
}

// A run that was cut, or a person, deleted the volume: what is left of it goes all the same.
func TestUninstallOfAGoneVolume(t *testing.T) {
	f := withVolume(t)
	f.converge()
	if err := f.mac.Interfaces().Volumes.Remove(t.Context(), f.guestVolume().UUID); err != nil {
		t.Fatal(err)
	}
	if s, failed := f.uninstall(false).FailedStep(); failed {
		t.Errorf("step %s: %s", s.Name, s.Detail)
	}
	f.gone(volumeFile, document.ConfigFile)
}

// A run that was cut off between making the volume and noting its UUID finds it
// again by place and quota, for it noted that it was about to.
func TestVolumeOfACutRunIsFound(t *testing.T) {
	f := withVolume(t)
	writes := 0
	f.mac.Fail = func(call string) error {
		if call == "write "+volumeFile {
			if writes++; writes == 2 {
				return errCut
			}
		}
		return nil
	}
	f.refused("storage", document.Retry, "cut")
	f.mac.Fail = nil
	f.converge()
	if f.mac.AddedVolumes() != 1 {
		t.Errorf("%d volumes were made", f.mac.AddedVolumes())
	}
}

func TestVolumeIsTakenBack(t *testing.T) {
	f := withVolume(t)
	f.converge()
	other := f.mac.AddVolume("other", 0)
	for range 2 {
		if err := (storage{f.env()}).removeVolume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.mac.Interfaces().Volumes.Volume(t.Context(), document.GuestVolume); err == nil {
		t.Error("the volume is still there")
	}
	if _, err := f.mac.Interfaces().Volumes.Volume(t.Context(), other.UUID); err != nil {
		t.Error(err)
	}
}
