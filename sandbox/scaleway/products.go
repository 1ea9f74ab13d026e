package scaleway

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	appleSilicon = "apple_silicon"
	// onSale is the status of every recorded product.
	onSale = "general_availability"
	nanos  = 1_000_000_000
)

// Footprint is the environmental impact of a Mac, as the price list estimates it.
type Footprint struct {
	KgCO2   float64
	WaterM3 float64
}

type productListBody struct {
	Products   []productBody `json:"products"`
	TotalCount int           `json:"total_count"`
}

// productBody leaves out what products of July 2025 did not have yet:
// product_category, badges and the ends of sale.
type productBody struct {
	SKU         string            `json:"sku"`
	Category    string            `json:"service_category"`
	Product     string            `json:"product"`
	Variant     string            `json:"variant"`
	Description string            `json:"description"`
	Locality    map[string]string `json:"locality"`
	Price       priceBody         `json:"price"`
	Properties  propertiesBody    `json:"properties"`
	Footprint   footprintBody     `json:"environmental_impact_estimation"`
	Unit        unitBody          `json:"unit_of_measure"`
	Status      string            `json:"status"`
}

type priceBody struct {
	Retail moneyBody `json:"retail_price"`
}

type moneyBody struct {
	Currency string `json:"currency_code"`
	Units    int64  `json:"units"`
	Nanos    int64  `json:"nanos"`
}

type unitBody struct {
	Unit string `json:"unit"`
	Size int    `json:"size"`
}

type footprintBody struct {
	KgCO2   float64 `json:"kg_co2_equivalent"`
	WaterM3 float64 `json:"m3_water_usage"`
}

type propertiesBody struct {
	Hardware     hardwareBody      `json:"hardware"`
	AppleSilicon map[string]string `json:"apple_silicon"`
}

type hardwareBody struct {
	CPU struct {
		Description string         `json:"description"`
		Arch        string         `json:"arch"`
		Type        string         `json:"type"`
		Physical    map[string]any `json:"physical"`
		Threads     int            `json:"threads"`
	} `json:"cpu"`
	RAM struct {
		Description string `json:"description"`
		Size        int64  `json:"size"`
		Type        string `json:"type"`
	} `json:"ram"`
	Storage struct {
		Description string `json:"description"`
		Total       int64  `json:"total"`
	} `json:"storage"`
	Network struct {
		Description string `json:"description"`
		Internal    int64  `json:"internal_bandwidth"`
		Public      int64  `json:"public_bandwidth"`
		MaxPublic   int64  `json:"max_public_bandwidth"`
	} `json:"network"`
	GPU struct {
		Description string `json:"description"`
		Count       int    `json:"count"`
		Type        string `json:"type"`
	} `json:"gpu"`
}

// listProducts serves the part of the public price list that scw reads for its
// list of server types: the Macs of one zone, cheapest first as recorded.
func (s *shop) listProducts(c *call) reply {
	if refused := s.checkProductQuery(c); refused != nil {
		return *refused
	}
	wanted, statuses := c.query["api_ids"], c.query["status"]
	var all []productBody
	for _, t := range slices.SortedStableFunc(slices.Values(s.catalogue.Types), func(a, b ServerType) int {
		return cmp.Compare(a.MonthCents, b.MonthCents)
	}) {
		if slices.Contains(t.Zones, c.query.Get("zone")) && (len(wanted) == 0 || slices.Contains(wanted, t.Name)) {
			all = append(all, t.products(c.query.Get("zone"))...)
		}
	}
	if len(statuses) > 0 && !slices.Contains(statuses, onSale) {
		all = nil
	}
	shown, refused := page(s.world, c, all)
	if refused != nil {
		return *refused
	}
	return ok(productListBody{Products: append([]productBody{}, shown...), TotalCount: len(all)})
}

// checkProductQuery refuses what is not simulated: other products, and those of
// other places than a zone. The refusals of nonsense are INF.
func (s *shop) checkProductQuery(c *call) *reply {
	refuse := func(r reply) *reply { return &r }
	kinds := c.query["product_types"]
	if len(kinds) != 1 || kinds[0] != appleSilicon {
		return refuse(notServed(fmt.Sprintf("%s with other product_types than %s: %q", c.name, appleSilicon, kinds)))
	}
	places := slices.DeleteFunc([]string{"global", "region", "zone", "datacenter"}, func(name string) bool { return !c.query.Has(name) })
	switch {
	case len(places) != 1:
		return refuse(invalidArgument("zone", "constraint", "precisely one of global, region, zone, datacenter must be set"))
	case places[0] != "zone":
		return refuse(notServed(c.name + " by " + places[0]))
	case !slices.Contains(s.opts.Zones, c.query.Get("zone")):
		return refuse(invalidArgument("zone", "constraint", "zone is not available for this product"))
	}
	return nil
}

// products are a type by the month and by the hour, those that have a price.
func (t ServerType) products(zone string) []productBody {
	var all []productBody
	if t.MonthCents > 0 {
		all = append(all, t.product(zone, "month", "Monthly", "/monthly", t.MonthCents, t.Month))
	}
	if t.HourCents > 0 {
		all = append(all, t.product(zone, "hour", "Hourly", "", t.HourCents, t.Hour))
	}
	return all
}

func (t ServerType) product(zone, unit, term, path string, cents int64, footprint Footprint) productBody {
	model := strings.TrimPrefix(t.CPU, "Apple ")
	size := t.Name[strings.LastIndex(t.Name, "-")+1:]
	name := fmt.Sprintf("Mac Mini %s - %s", model, size)
	variant := fmt.Sprintf("%s - %s - %s", name, term, zone)
	money := strconv.FormatFloat(float64(cents)/100, 'f', -1, 64)
	return productBody{
		SKU:      fmt.Sprintf("/apple-silicon/%s%s/run_%s", strings.ToLower(t.Name), path, placeOf(zone)),
		Category: "Bare Metal", Product: name, Variant: variant,
		Description: fmt.Sprintf("%s (%s€ per %s)", variant, money, unit),
		Locality:    map[string]string{"zone": zone},
		Price:       priceBody{moneyBody{"EUR", cents / 100, cents % 100 * (nanos / 100)}},
		Properties:  propertiesBody{t.hardware(), map[string]string{"range": strings.Fields(model)[0]}},
		Footprint:   footprintBody(footprint),
		Unit:        unitBody{unit, 1}, Status: onSale,
	}
}

// placeOf is a zone in an SKU: par1 for fr-par-1.
func placeOf(zone string) string {
	_, place, _ := strings.Cut(zone, "-")
	return strings.ReplaceAll(place, "-", "")
}

func (t ServerType) hardware() hardwareBody {
	var h hardwareBody
	h.CPU.Description = fmt.Sprintf("%s, %s, Sockets: 1, Cores per socket: %d, Threads per core: 1, Frequency: %s GHz",
		t.CPU, appleSilicon, t.Cores, strconv.FormatFloat(float64(t.FrequencyHz)/giga, 'f', -1, 64))
	h.CPU.Arch, h.CPU.Type, h.CPU.Threads = appleSilicon, t.CPU, t.Cores
	h.CPU.Physical = map[string]any{
		"sockets": 1, "cores_per_socket": t.Cores, "threads_per_core": 1, "frequency": t.FrequencyHz, "benchmark": 0,
	}
	h.RAM.Description = fmt.Sprintf("%d GiB %s", t.MemoryBytes/giga, t.MemoryType)
	h.RAM.Size, h.RAM.Type = t.MemoryBytes/giga<<30, t.MemoryType // binary here, decimal in the list of types
	h.Storage.Description = "Fixed local: 1 x " + diskSize(t.DiskBytes) + " SSD"
	h.Storage.Total = t.DiskBytes
	lowest, highest := t.Bandwidths[0], t.Bandwidths[len(t.Bandwidths)-1]
	h.Network.Internal, h.Network.Public, h.Network.MaxPublic = highest, lowest, highest
	h.Network.Description = fmt.Sprintf("Internal: %d Gb/s, Public: %d Gb/s", highest/giga, lowest/giga)
	if highest > lowest {
		h.Network.Description += fmt.Sprintf(" (max %d Gb/s)", highest/giga)
	}
	h.GPU.Description = fmt.Sprintf("%d x %s", t.GPUCores, t.CPU)
	h.GPU.Count, h.GPU.Type = t.GPUCores, t.CPU
	return h
}

func diskSize(bytes int64) string {
	if bytes >= 1000*giga {
		return fmt.Sprintf("%.2f TB", float64(bytes)/(1000*giga))
	}
	return fmt.Sprintf("%d GB", bytes/giga)
}
