package scaleway

import (
	"slices"
	"time"
)

// What a server type's stock can read. Only [NoStock] refuses an order.
const (
	NoStock   = "no_stock"
	LowStock  = "low_stock"
	HighStock = "high_stock"
)

// Catalogue is what the vendor sells and installs.
type Catalogue struct {
	Types []ServerType
	OSes  []OS
}

// ServerType is one model of Mac on offer.
type ServerType struct {
	Name        string
	CPU         string
	Cores       int
	FrequencyHz int64
	GPUCores    int
	MemoryBytes int64
	MemoryType  string
	DiskBytes   int64
	// Bandwidths are the public bandwidths on offer in bits per second, lowest first.
	Bandwidths []int64
	// Stock is one of [NoStock], [LowStock], [HighStock].
	Stock string
	// DefaultOS names the image installed when an order names none.
	DefaultOS string
	// Zones are where the type can be ordered.
	Zones []string
	// Delivery is the time from order to first ready, at scale 1.
	Delivery time.Duration
	// HourCents and MonthCents are the price in euro cents without tax; one of
	// zero is not on the price list.
	HourCents, MonthCents int64
	// Hour and Month are the footprints of an hour and a month.
	Hour, Month Footprint
}

// OS is one image on offer.
type OS struct {
	ID           string
	Name         string
	Label        string
	Family       string
	Version      string
	Xcode        string
	ImageURL     string
	Description  string
	ReleaseNotes string
	Beta         bool
	Tags         []string
	// Types are the server types that can run the image.
	Types []string
	// FastOn are those of Types that the list shows with fast delivery.
	FastOn []string
}

// DefaultCatalogue is the catalogue recorded in 2025 and 2026: five types in
// fr-par-1, M1-M in fr-par-3, and the images of March 2026.
func DefaultCatalogue() Catalogue {
	return Catalogue{Types: defaultTypes(), OSes: defaultOSes()}
}

// Decimal units, as the vendor counts memory, disk and bandwidth.
const (
	giga = 1_000_000_000
	mega = 1_000_000
)

func defaultTypes() []ServerType {
	oneGigabit := []int64{giga}
	upToTen := make([]int64, 10)
	for i := range upToTen {
		upToTen[i] = int64(i+1) * giga
	}
	paris1, paris3 := []string{"fr-par-1"}, []string{"fr-par-3"}
	// Delivery: the median of recorded creations; M1-M is from 2021, M4-S and
	// M4-XL were never recorded and take M4-M's. Prices and footprints: recorded in
	// July 2025; M1-M's monthly price is documented, its other figures are not.
	return []ServerType{
		{Name: "M4-S", CPU: "Apple M4", Cores: 10, FrequencyHz: 4400 * mega, GPUCores: 10, MemoryBytes: 16 * giga, MemoryType: "LPDDR5X", DiskBytes: 256 * giga, Bandwidths: oneGigabit, Stock: HighStock, DefaultOS: "macos-sequoia-15.6", Zones: paris1, Delivery: 130 * time.Second, HourCents: 22, MonthCents: 14900, Hour: Footprint{0.014205732, 1.3491717e-06}, Month: Footprint{10.370185, 0.0009848954}},
		{Name: "M4-M", CPU: "Apple M4", Cores: 10, FrequencyHz: 4400 * mega, GPUCores: 10, MemoryBytes: 32 * giga, MemoryType: "LPDDR5X", DiskBytes: 1024 * giga, Bandwidths: upToTen, Stock: HighStock, DefaultOS: "macos-sequoia-15.6", Zones: paris1, Delivery: 130 * time.Second, HourCents: 29, MonthCents: 19900, Hour: Footprint{0.015271181, 1.3491717e-06}, Month: Footprint{11.147963, 0.0009848954}},
		{Name: "M2-M", CPU: "Apple M2", Cores: 8, FrequencyHz: 3500 * mega, GPUCores: 10, MemoryBytes: 16 * giga, MemoryType: "LPDDR5", DiskBytes: 256 * giga, Bandwidths: oneGigabit, Stock: HighStock, DefaultOS: "macos-sequoia-15.6", Zones: paris1, Delivery: 127 * time.Second, HourCents: 17, MonthCents: 11500, Hour: Footprint{0.013547652, 1.2453893e-06}, Month: Footprint{9.889786, 0.00090913416}},
		{Name: "M4-XL", CPU: "Apple M4 Pro", Cores: 14, FrequencyHz: 4500 * mega, GPUCores: 20, MemoryBytes: 64 * giga, MemoryType: "LPDDR5X", DiskBytes: 2048 * giga, Bandwidths: upToTen, Stock: HighStock, DefaultOS: "macos-sequoia-15.6", Zones: paris1, Delivery: 130 * time.Second, HourCents: 49, MonthCents: 33500, Hour: Footprint{0.020559302, 1.8680839e-06}, Month: Footprint{15.00829, 0.0013637012}},
		{Name: "M2-L", CPU: "Apple M2 Pro", Cores: 10, FrequencyHz: 3500 * mega, GPUCores: 16, MemoryBytes: 16 * giga, MemoryType: "LPDDR5", DiskBytes: 512 * giga, Bandwidths: oneGigabit, Stock: HighStock, DefaultOS: "macos-sequoia-15.6", Zones: paris1, Delivery: 127 * time.Second, HourCents: 21, MonthCents: 13900, Hour: Footprint{0.017218573, 1.7643015e-06}, Month: Footprint{12.569558, 0.0012879401}},
		{Name: "M1-M", CPU: "Apple M1", Cores: 8, FrequencyHz: 3200 * mega, GPUCores: 8, MemoryBytes: 8 * giga, MemoryType: "LPDDR4X", DiskBytes: 256 * giga, Bandwidths: oneGigabit, Stock: HighStock, DefaultOS: "macos-sequoia-15.6", Zones: paris3, Delivery: 30 * time.Second, MonthCents: 7500},
	}
}

func defaultOSes() []OS {
	everyMac := []string{"M2-M", "M2-L", "M4-S", "M4-M", "M4-L", "M4-XL", "M1-M"}
	untilM2 := []string{"M1-M", "M2-L", "M2-M"}
	m2 := []string{"M2-M", "M2-L"}
	apple := []string{"macos", "apple", "apple-license"}
	return []OS{
		{ID: "59bf09f1-5584-469d-a0f6-55c8fee1ab81", Name: "macos-ventura-13.6", Label: "macOS Ventura 13.6", Family: "Ventura", Version: "13.6", Xcode: "14", ImageURL: imageURL("macos-ventura"), Tags: apple, Types: untilM2, FastOn: m2},
		{ID: "78b5dee3-3327-4329-b987-b6df82650ca6", Name: "macos-tahoe-26.0", Label: "macOS Tahoe 26.0", Family: "Tahoe", Version: "26.0", Xcode: "26", ImageURL: imageURL("macos-tahoe"), Tags: apple, Types: everyMac, FastOn: m2},
		{ID: "ccbb804d-8d29-49c5-96d5-d4e28effc390", Name: "macos-sonoma-14.6", Label: "macOS Sonoma 14.6", Family: "Sonoma", Version: "14.6", Xcode: "15", ImageURL: imageURL("macos-sonoma"), Tags: apple, Types: untilM2, FastOn: m2},
		{ID: "61b842ab-b655-4d3c-a065-f7db5e9fb971", Name: "macos-sequoia-15.6", Label: "macOS Sequoia 15.6", Family: "Sequoia", Version: "15.6.1", Xcode: "16", ImageURL: imageURL("macos-sequoia"), Tags: apple, Types: everyMac, FastOn: []string{"M2-M", "M2-L", "M4-S"}},
		{ID: "87135053-e968-4a38-8735-86901accc6f5", Name: "macos-sequoia-15.3.1", Label: "macOS Sequoia 15.3.1", Family: "Sequoia", Version: "15.3.1", Xcode: "16", ImageURL: imageURL("macos-sequoia"), Tags: apple, Types: everyMac, FastOn: m2},
		{ID: "367b9c18-d57f-4c9a-bcea-9e1fda66fc70", Name: "macos-sequoia-15.2", Label: "macOS Sequoia 15.2", Family: "Sequoia", Version: "15.2", Xcode: "16", ImageURL: imageURL("macos-sequoia"), Tags: apple, Types: []string{"M1-M", "M4-S", "M2-M", "M2-L"}, FastOn: m2},
		{ID: "decafedd-9f25-4e16-b86b-47c5a6c6577b", Name: "fedora-asahi-remix", Label: "Fedora Asahi Remix", Family: "Linux", Version: "42", Xcode: "None", ImageURL: imageURL("asahi-linux"), Description: "Fedora Linux for Apple silicon.", ReleaseNotes: "https://docs.fedoraproject.org/en-US/fedora/f42/release-notes/", Beta: true, Tags: []string{"linux"}, Types: []string{"M2-L-ASAHI"}, FastOn: []string{"M2-L-ASAHI"}},
		{ID: "cafecafe-5018-4dcd-bd08-35f031b0ac3e", Name: "devos-sequoia-15.6", Label: "DevOS Sequoia 15.6", Family: "DevOS", Version: "15.6.1", Xcode: "16", ImageURL: imageURL("devos"), Description: "macOS with Xcode installed.", ReleaseNotes: "https://github.com/actions/runner-images", Tags: append(slices.Clone(apple), "runner", "github"), Types: []string{"M2-L"}, FastOn: []string{"M2-L"}},
	}
}

func imageURL(name string) string {
	return "https://scw-apple-silicon.s3.fr-par.scw.cloud/scw-console/os/" + name + ".png"
}

func (c Catalogue) serverType(name, zone string) (ServerType, bool) {
	for _, t := range c.Types {
		if t.Name == name && slices.Contains(t.Zones, zone) {
			return t, true
		}
	}
	return ServerType{}, false
}

func (c Catalogue) osByID(id string) (OS, bool) {
	return c.findOS(func(o OS) bool { return o.ID == id })
}

func (c Catalogue) osByName(name string) (OS, bool) {
	return c.findOS(func(o OS) bool { return o.Name == name })
}

func (c Catalogue) findOS(match func(OS) bool) (OS, bool) {
	i := slices.IndexFunc(c.OSes, match)
	if i < 0 {
		return OS{}, false
	}
	return c.OSes[i], true
}
