package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestImagesAndPodsAreValidated(t *testing.T) {
	many := make([]string, maxPrePull+1)
	for i := range many {
		many[i] = fmt.Sprintf("r.test/a/b:v%d", i)
	}
	for name, c := range map[string]struct {
		images Images
		pods   Pods
		field  string // empty: nothing is wrong
	}{
		"nothing":             {},
		"tag":                 {images: Images{PrePull: []string{"r.test:5000/a/b_c/d:v1.2"}}},
		"digest":              {images: Images{PrePull: []string{"r.test/a/b@sha256:" + strings.Repeat("a", 64)}}},
		"tag and digest":      {images: Images{PrePull: []string{"r.test:5000/a/b:v1@sha256:" + strings.Repeat("a", 64)}}},
		"no tag":              {images: Images{PrePull: []string{"r.test/b"}}},
		"local name":          {images: Images{PrePull: []string{"base"}}, field: "images.prePull[0]"},
		"flag":                {images: Images{PrePull: []string{"r.test/b", "--insecure"}}, field: "images.prePull[1]"},
		"tag, short digest":   {images: Images{PrePull: []string{"r.test/a/b:v1@sha256:ab"}}, field: "images.prePull[0]"},
		"short digest":        {images: Images{PrePull: []string{"r.test/a/b@sha256:ab"}}, field: "images.prePull[0]"},
		"climbing":            {images: Images{PrePull: []string{"r.test/../b"}}, field: "images.prePull[0]"},
		"too many":            {images: Images{PrePull: many}, field: "images.prePull"},
		"high alone":          {images: Images{GCHighPercent: 85}},
		"both":                {images: Images{GCHighPercent: 84, GCLowPercent: 70}},
		"wrong way round":     {images: Images{GCHighPercent: 70, GCLowPercent: 70}, field: "images.gcLowPercent"},
		"DiskPressure":        {images: Images{GCHighPercent: 86, GCLowPercent: 80}, field: "images.gcHighPercent"},
		"less than nothing":   {images: Images{GCLowPercent: -1}, field: "images.gcLowPercent"},
		"directory":           {pods: Pods{HostPaths: []string{"/Users/Shared/my cache"}}},
		"relative":            {pods: Pods{HostPaths: []string{"Users"}}, field: "pods.hostPaths[0]"},
		"whole disk":          {pods: Pods{HostPaths: []string{"/Users/Shared", "/"}}, field: "pods.hostPaths[1]"},
		"next to the guests":  {pods: Pods{HostPaths: []string{"/Volumes/cache", "/Volumes/macfleets", "/variable", "/Users/Shared/usr", "/opt/homebrews"}}},
		"the agent's state":   {pods: Pods{HostPaths: []string{AgentStateDir}}, field: "pods.hostPaths[0]"},
		"hostd's state":       {pods: Pods{HostPaths: []string{"/private" + StateDir}}, field: "pods.hostPaths[0]"},
		"the configuration":   {pods: Pods{HostPaths: []string{ConfigDir}}, field: "pods.hostPaths[0]"},
		"the programs":        {pods: Pods{HostPaths: []string{InstallDir}}, field: "pods.hostPaths[0]"},
		"the guests' volume":  {pods: Pods{HostPaths: []string{GuestVolume + "/tart"}}, field: "pods.hostPaths[0]"},
		"all volumes":         {pods: Pods{HostPaths: []string{"/Volumes"}}, field: "pods.hostPaths[0]"},
		"in other letters":    {pods: Pods{HostPaths: []string{"/VAR/db"}}, field: "pods.hostPaths[0]"},
		"above the state":     {pods: Pods{HostPaths: []string{"/private"}}, field: "pods.hostPaths[0]"},
		"the other way round": {pods: Pods{HostPaths: []string{"/System/Volumes/Data/private/var"}}, field: "pods.hostPaths[0]"},
		"all homes":           {pods: Pods{HostPaths: []string{"/users"}}, field: "pods.hostPaths[0]"},
		"a home":              {pods: Pods{HostPaths: []string{"/Users/m1"}}, field: "pods.hostPaths[0]"},
		"what runs at login":  {pods: Pods{HostPaths: []string{"/Users/m1/Library/LaunchAgents"}}, field: "pods.hostPaths[0]"},
		"a home like Shared":  {pods: Pods{HostPaths: []string{"/Users/Shared2"}}, field: "pods.hostPaths[0]"},
		"tart of a package":   {pods: Pods{HostPaths: []string{"/opt/homebrew/bin"}}, field: "pods.hostPaths[0]"},
		"above that":          {pods: Pods{HostPaths: []string{"/opt"}}, field: "pods.hostPaths[0]"},
		"tart as an app":      {pods: Pods{HostPaths: []string{"/Applications"}}, field: "pods.hostPaths[0]"},
		"by its inode":        {pods: Pods{HostPaths: []string{"/.vol/16777234/2/Users/m1"}}, field: "pods.hostPaths[0]"},
		"by another door":     {pods: Pods{HostPaths: []string{"/.nofollow/private/etc"}}, field: "pods.hostPaths[0]"},
		"by the disk's name":  {pods: Pods{HostPaths: []string{"/Volumes/Macintosh HD/private/etc"}}, field: "pods.hostPaths[0]"},
		"up and down":         {pods: Pods{HostPaths: []string{"/Users/../etc"}}, field: "pods.hostPaths[0]"},
		"slash at the end":    {pods: Pods{HostPaths: []string{"/Users/"}}, field: "pods.hostPaths[0]"},
		"part of a share":     {pods: Pods{HostPaths: []string{"/Users/a:ro"}}, field: "pods.hostPaths[0]"},
		"option of a share":   {pods: Pods{HostPaths: []string{"/Users/a,tag=x"}}, field: "pods.hostPaths[0]"},
		"line of its own":     {pods: Pods{HostPaths: []string{"/Users/a\nb"}}, field: "pods.hostPaths[0]"},
		"too many hostPaths":  {pods: Pods{HostPaths: make([]string, maxHostPaths+1)}, field: "pods.hostPaths"},
	} {
		d := desired()
		d.Images, d.Pods = c.images, c.pods
		var refused *FieldError
		switch err := d.Validate(); {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.field != "" && (!errors.As(err, &refused) || refused.Field != c.field):
			t.Errorf("%s: %v, want %s refused", name, err, c.field)
		}
	}
}

// A profile that says nothing of images and Pods is the document that Macs had
// before there were any such fields.
func TestNoImagesAndPodsAreNotWritten(t *testing.T) {
	d := desired()
	d.Images, d.Pods = Images{}, Pods{}
	data, err := EncodeConfig(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "images") || strings.Contains(string(data), "pods") {
		t.Errorf("%s", data)
	}
}
