package scaleway

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/internal/cloud"
)

// FindOS looks the image up at run time: the vendor withdraws point releases
// and their ids.
func (c *Client) FindOS(ctx context.Context, zone, family, serverType string) (cloud.OS, error) {
	doing := "find an image of " + family + " for " + cmp.Or(serverType, "any type") + " in " + zone
	if err := checkZone(doing, zone); err != nil {
		return cloud.OS{}, err
	}
	var all []*applesilicon.OS
	err := c.call(ctx, list, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.ListOS(&applesilicon.ListOSRequest{
			Zone: scw.Zone(zone), PageSize: scw.Uint32Ptr(pageSize),
		}, scw.WithAllPages(), with)
		if err == nil {
			all = answer.Os
		}
		return err
	})
	if err != nil {
		return cloud.OS{}, err
	}
	if len(all) == 0 {
		// Not "not found": whoever asks would take the default image instead.
		return cloud.OS{}, noList(doing)
	}
	newest := newestImage(all, family, serverType)
	if newest == nil {
		return cloud.OS{}, &cloud.Error{Kind: cloud.KindNotFound, Doing: doing, Message: missingImage(all, serverType)}
	}
	return cloud.OS{ID: newest.ID, Name: newest.Name, Family: strings.ToLower(newest.Family)}, nil
}

// missingImage tells what there is instead.
func missingImage(all []*applesilicon.OS, serverType string) string {
	var families, types []string
	for _, image := range all {
		if image == nil || image.IsBeta {
			continue
		}
		if runsOn(image, serverType) {
			families = append(families, strings.ToLower(image.Family))
		}
		for _, supported := range image.SupportedServerTypes {
			if supported != nil {
				types = append(types, supported.ServerType)
			}
		}
	}
	switch {
	case len(families) > 0:
		return "none is published; there are images of " + enumerate(families)
	case len(types) > 0:
		return "no image is published for this type; there are some for " + enumerate(types)
	}
	return "none is published, nor any other"
}

// enumerate lists each name once, in order.
func enumerate(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func newestImage(all []*applesilicon.OS, family, serverType string) *applesilicon.OS {
	var newest *applesilicon.OS
	for _, image := range all {
		if image == nil || image.IsBeta || !strings.EqualFold(image.Family, family) || !runsOn(image, serverType) {
			continue
		}
		if newest == nil || compareVersions(image.Version, newest.Version) > 0 {
			newest = image
		}
	}
	return newest
}

func runsOn(image *applesilicon.OS, serverType string) bool {
	return serverType == "" || slices.ContainsFunc(image.SupportedServerTypes, func(t *applesilicon.OSSupportedServerType) bool {
		return t != nil && t.ServerType == serverType
	})
}

// compareVersions compares dotted numbers; what is no number counts as 0.
func compareVersions(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = 0
		}
		out = append(out, n)
	}
	return out
}
