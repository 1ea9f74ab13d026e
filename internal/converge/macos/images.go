package macos

import (
	"context"
	"fmt"
	"path"
	"strings"

	"howett.net/plist"
)

// Images are the disk images that are attached to the Mac, RAM disks among them.
type Images interface {
	// DetachRAM detaches the RAM disk that is mounted there, with what is on it. None
	// is no error.
	DetachRAM(ctx context.Context, mount string) error
}

// HDIUtil is the disk images of this Mac, through the command of that name.
type hdiutil struct{}

var _ Images = hdiutil{}

const hdiutilCommand = "/usr/bin/hdiutil"

// DetachRAM implements Images.
func (hdiutil) DetachRAM(ctx context.Context, mount string) error {
	out, err := run(ctx, hdiutilCommand, "info", "-plist")
	if err != nil {
		return err
	}
	device, err := ramDevice(out, mount)
	if err != nil || device == "" {
		return err
	}
	_, err = run(ctx, hdiutilCommand, "detach", device, "-force")
	return err
}

// ramDevice finds, in what `hdiutil info -plist` prints, the RAM disk that is mounted
// at a place; empty: none is. The list has real paths, and /var is a link.
func ramDevice(list, mount string) (string, error) {
	var all struct {
		Images []struct {
			Path     string `plist:"image-path"`
			Entities []struct {
				Device string `plist:"dev-entry"`
				Mount  string `plist:"mount-point"`
			} `plist:"system-entities"`
		} `plist:"images"`
	}
	if _, err := plist.Unmarshal([]byte(list), &all); err != nil {
		return "", fmt.Errorf("reading what hdiutil says of attached images: %w", err)
	}
	for _, image := range all.Images {
		for _, e := range image.Entities {
			if strings.HasPrefix(image.Path, "ram://") && (e.Mount == mount || e.Mount == path.Join("/private", mount)) {
				return e.Device, nil
			}
		}
	}
	return "", nil
}
