package macos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"howett.net/plist"
)

// diskutil is the APFS volumes of this Mac, through the command of that name.
type diskutil struct{}

var _ Volumes = diskutil{}

const (
	diskutilCommand = "/usr/sbin/diskutil"
	// dataVolume is in the container that volumes are added to; the root is a sealed
	// snapshot.
	dataVolume = "/System/Volumes/Data"
)

// volumeInfo is what is read of diskutil's property list.
type volumeInfo struct {
	VolumeUUID             string
	VolumeName             string
	MountPoint             string
	APFSContainerReference string
	// CapacityQuota is 0 where the release does not say it.
	CapacityQuota            int64
	GlobalPermissionsEnabled bool
	// Error is set instead of all others when there is no such volume.
	Error bool
}

func diskInfo(ctx context.Context, which string) (volumeInfo, error) {
	out, err := run(ctx, diskutilCommand, "info", "-plist", which)
	var failed *commandError
	if err != nil && !errors.As(err, &failed) {
		return volumeInfo{}, err
	}
	info, parsed := parseVolume(out)
	switch {
	case parsed == nil && info.Error, parsed != nil && failed != nil && failed.Code == 1:
		return volumeInfo{}, fmt.Errorf("volume %s: %w", which, fs.ErrNotExist)
	case parsed != nil:
		return volumeInfo{}, fmt.Errorf("reading what diskutil says of %s: %w", which, parsed)
	}
	return info, err
}

// parseVolume reads the property list of diskutil info.
func parseVolume(text string) (volumeInfo, error) {
	var info volumeInfo
	if _, err := plist.Unmarshal([]byte(text), &info); err != nil {
		return volumeInfo{}, fmt.Errorf("not a property list: %w", err)
	}
	return info, nil
}

// Volume implements Volumes.
func (diskutil) Volume(ctx context.Context, which string) (Volume, error) {
	info, err := diskInfo(ctx, which)
	if err != nil {
		return Volume{}, err
	}
	if info.VolumeUUID == "" {
		return Volume{}, fmt.Errorf("diskutil knows no UUID of %s", which)
	}
	return Volume{
		UUID: info.VolumeUUID, Name: info.VolumeName, Mount: info.MountPoint,
		QuotaBytes: info.CapacityQuota, Owners: info.GlobalPermissionsEnabled,
	}, nil
}

var sliceShape = regexp.MustCompile(`\bdisk[0-9]+s[0-9]+\b`)

// Add implements Volumes.
func (d diskutil) Add(ctx context.Context, name string, quotaBytes int64) (Volume, error) {
	data, err := diskInfo(ctx, dataVolume)
	if err != nil {
		return Volume{}, fmt.Errorf("looking for the container of %s: %w", dataVolume, err)
	}
	if data.APFSContainerReference == "" {
		return Volume{}, fmt.Errorf("%s is in no APFS container", dataVolume)
	}
	out, err := run(ctx, diskutilCommand, "apfs", "addVolume", data.APFSContainerReference, "APFS", name,
		"-quota", strconv.FormatInt(quotaBytes, 10)+"B")
	if err != nil {
		return Volume{}, err
	}
	device := sliceShape.FindString(out)
	if device == "" {
		return Volume{}, errors.New("diskutil added a volume and does not say which")
	}
	return d.Volume(ctx, device)
}

// Mount implements Volumes.
func (diskutil) Mount(ctx context.Context, uuid string) error {
	_, err := run(ctx, diskutilCommand, "mount", uuid)
	return err
}

// EnableOwners implements Volumes.
func (diskutil) EnableOwners(ctx context.Context, uuid string) error {
	_, err := run(ctx, diskutilCommand, "enableOwnership", uuid)
	return err
}

// Remove implements Volumes.
func (diskutil) Remove(ctx context.Context, uuid string) error {
	_, err := run(ctx, diskutilCommand, "apfs", "deleteVolume", uuid)
	return err
}
