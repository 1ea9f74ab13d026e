package macos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

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
	// Error is set instead of all others when diskutil says nothing of the volume, and
	// ErrorMessage says why.
	Error        bool
	ErrorMessage string
}

// noDisk begins what diskutil says of a volume that is not there. Whatever else it
// fails of, as right after a boot, ends with the same code and says nothing of the volume.
const noDisk = "Could not find disk"

func diskInfo(ctx context.Context, which string) (volumeInfo, error) {
	out, err := run(ctx, diskutilCommand, "info", "-plist", which)
	return readInfo(which, out, err)
}

// readInfo takes what diskutil info printed, and how it ended. fs.ErrNotExist: there is
// no such volume.
func readInfo(which, out string, ended error) (volumeInfo, error) {
	failed, exited := errors.AsType[*commandError](ended)
	info, parsed := parseVolume(out)
	switch {
	case ended != nil && !exited:
		return volumeInfo{}, ended
	case strings.HasPrefix(info.ErrorMessage, noDisk), exited && strings.HasPrefix(failed.Text, noDisk):
		return volumeInfo{}, fmt.Errorf("volume %s: %w", which, fs.ErrNotExist)
	case info.Error:
		return volumeInfo{}, fmt.Errorf("diskutil says of %s: %.200q", which, info.ErrorMessage)
	case ended != nil:
		return volumeInfo{}, ended
	case parsed != nil:
		return volumeInfo{}, fmt.Errorf("reading what diskutil says of %s: %w", which, parsed)
	}
	return info, nil
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
