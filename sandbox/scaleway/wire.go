package scaleway

import (
	"fmt"
	"slices"
	"time"
)

// sealedText stands in for a credential in a sealed answer.
const sealedText = "<sealed>"

// vncPort is on every server recorded since 2025.
const vncPort = 59010

// date is a time as the vendor writes it: UTC with microseconds.
type date time.Time

// MarshalJSON always writes six decimals, as recorded.
func (d date) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(d).UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

type serverBody struct {
	ID                  string         `json:"id"`
	Type                string         `json:"type"`
	Name                string         `json:"name"`
	ProjectID           string         `json:"project_id"`
	OrganizationID      string         `json:"organization_id"`
	IP                  string         `json:"ip"`
	VNCURL              string         `json:"vnc_url"`
	SSHUsername         string         `json:"ssh_username"`
	SudoPassword        string         `json:"sudo_password"`
	VNCPort             uint32         `json:"vnc_port"`
	OS                  osBody         `json:"os"`
	Status              Status         `json:"status"`
	CreatedAt           date           `json:"created_at"`
	UpdatedAt           date           `json:"updated_at"`
	DeletableAt         date           `json:"deletable_at"`
	DeletionScheduled   bool           `json:"deletion_scheduled"`
	Zone                string         `json:"zone"`
	Delivered           bool           `json:"delivered"`
	VPCStatus           string         `json:"vpc_status"`
	Commitment          commitmentBody `json:"commitment"`
	PublicBandwidth     int64          `json:"public_bandwidth_bps"`
	RunnerConfiguration *struct{}      `json:"runner_configuration"`
	Tags                []string       `json:"tags"`
	AppliedRunners      []string       `json:"applied_runner_configuration_ids"`
	// KextEnabled and SRN are newer than the recordings; that the vendor sends an
	// SRN is INF, its form is the SDK's.
	KextEnabled bool   `json:"kext_enabled"`
	SRN         string `json:"srn"`
}

type commitmentBody struct {
	Type      string `json:"type"`
	Cancelled bool   `json:"cancelled"`
}

type serverListBody struct {
	Servers    []serverBody `json:"servers"`
	TotalCount int          `json:"total_count"`
}

// render is the server as an answer shows it, with or without its credentials.
func (a *serverAPI) render(s *server, sealed bool) serverBody {
	body := serverBody{
		ID: s.id, Type: s.kind.Name, Name: s.name,
		ProjectID: s.project, OrganizationID: a.opts.OrganizationID,
		IP: s.ip.String(), SSHUsername: Username, VNCPort: vncPort,
		VNCURL:       fmt.Sprintf("vnc://%s:%s@%s:%d", Username, s.password, s.ip, vncPort),
		SudoPassword: s.password,
		OS:           renderOS(s.os, s.zone, false),
		Status:       s.status,
		CreatedAt:    date(s.created), UpdatedAt: date(s.updated), DeletableAt: date(s.deletable),
		DeletionScheduled: s.deletionScheduled,
		Zone:              s.zone, Delivered: s.delivered, VPCStatus: s.vpc,
		Commitment:      commitmentBody{Type: s.commitment, Cancelled: s.commitmentCancelled},
		PublicBandwidth: s.bandwidth,
		Tags:            []string{}, AppliedRunners: []string{},
		KextEnabled: s.kext,
		SRN:         fmt.Sprintf("srn://apple-silicon.%s/zones/%s/servers/%s", domain, s.zone, s.id),
	}
	if a.knobs.UnknownStatus != "" {
		body.Status = a.knobs.UnknownStatus
	}
	if sealed {
		body.SudoPassword, body.VNCURL = sealedText, sealedText
	}
	return body
}

type osBody struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Label          string          `json:"label"`
	ImageURL       string          `json:"image_url"`
	Family         string          `json:"family"`
	IsBeta         bool            `json:"is_beta"`
	Version        string          `json:"version"`
	XcodeVersion   string          `json:"xcode_version"`
	Compatible     []string        `json:"compatible_server_types"`
	ReleaseNotes   string          `json:"release_notes_url"`
	Description    string          `json:"description"`
	Tags           []string        `json:"tags"`
	SupportedTypes []supportedBody `json:"supported_server_types"`
	Zone           string          `json:"zone"` // newer than the recordings
}

type supportedBody struct {
	ServerType   string `json:"server_type"`
	FastDelivery bool   `json:"fast_delivery_available"`
}

type osListBody struct {
	OS         []osBody `json:"os"`
	TotalCount int      `json:"total_count"`
}

// renderOS fills supported_server_types only in lists: everywhere else it is
// recorded as empty.
func renderOS(o OS, zone string, inList bool) osBody {
	body := osBody{
		ID: o.ID, Name: o.Name, Label: o.Label, ImageURL: o.ImageURL, Family: o.Family,
		IsBeta: o.Beta, Version: o.Version, XcodeVersion: o.Xcode,
		Compatible: notNil(o.Types), ReleaseNotes: o.ReleaseNotes, Description: o.Description,
		Tags: notNil(o.Tags), SupportedTypes: []supportedBody{}, Zone: zone,
	}
	if !inList {
		return body
	}
	for _, name := range o.Types {
		body.SupportedTypes = append(body.SupportedTypes, supportedBody{name, slices.Contains(o.FastOn, name)})
	}
	return body
}

type serverTypeBody struct {
	Name         string      `json:"name"`
	CPU          cpuBody     `json:"cpu"`
	Disk         sizeBody    `json:"disk"`
	Memory       sizeBody    `json:"memory"`
	Stock        string      `json:"stock"`
	MinimumLease string      `json:"minimum_lease_duration"`
	DefaultOS    osBody      `json:"default_os"`
	GPU          countBody   `json:"gpu"`
	Network      networkBody `json:"network"`
	Zone         string      `json:"zone"` // newer than the recordings
}

type cpuBody struct {
	Name      string `json:"name"`
	Cores     int    `json:"core_count"`
	Frequency int64  `json:"frequency"`
}

type sizeBody struct {
	Capacity int64  `json:"capacity"`
	Type     string `json:"type"`
}

type countBody struct {
	Count int `json:"count"`
}

type networkBody struct {
	Bandwidth int64   `json:"public_bandwidth_bps"`
	Supported []int64 `json:"supported_bandwidth"`
}

type serverTypeListBody struct {
	ServerTypes []serverTypeBody `json:"server_types"`
}

func (c Catalogue) renderType(t ServerType, zone string) serverTypeBody {
	defaultOS, _ := c.osByName(t.DefaultOS)
	return serverTypeBody{
		Name:         t.Name,
		CPU:          cpuBody{t.CPU, t.Cores, t.FrequencyHz},
		Disk:         sizeBody{t.DiskBytes, "SSD"},
		Memory:       sizeBody{t.MemoryBytes, t.MemoryType},
		Stock:        t.Stock,
		MinimumLease: fmt.Sprintf("%ds", int64(appleLease.Seconds())),
		DefaultOS:    renderOS(defaultOS, zone, false),
		GPU:          countBody{t.GPUCores},
		// The type shows the highest bandwidth, an order without one gets the lowest: both recorded.
		Network: networkBody{t.Bandwidths[len(t.Bandwidths)-1], t.Bandwidths},
		Zone:    zone,
	}
}

type sshKeyBody struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	PublicKey      string `json:"public_key"`
	Fingerprint    string `json:"fingerprint"`
	CreatedAt      date   `json:"created_at"`
	UpdatedAt      date   `json:"updated_at"`
	OrganizationID string `json:"organization_id"`
	ProjectID      string `json:"project_id"`
	Disabled       bool   `json:"disabled"`
}

type sshKeyListBody struct {
	SSHKeys    []sshKeyBody `json:"ssh_keys"`
	TotalCount int          `json:"total_count"`
}

// notNil makes an absent list the [] that the vendor writes.
func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
