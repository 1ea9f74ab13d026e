// Package cost says what a pool of Macs costs: what is billed, until when at least, what
// the next days cost, and which Macs could be given back without a loss. Pure functions.
package cost

import (
	"fmt"
	"strings"
)

// PricesOf is the day the vendor's prices were read: its catalogue wants a key, which
// whoever looks at a fleet has not.
const PricesOf = "2025-07-22"

// Euro is an amount in hundredths, without tax.
type Euro int64

func (e Euro) String() string { return fmt.Sprintf("€%d.%02d", e/100, e%100) }

// MarshalJSON writes a number of euro.
func (e Euro) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%d.%02d", e/100, e%100), nil }

// Price is what a type of server costs.
type Price struct {
	Hour, Month Euro
}

// PriceOf is that of a type as the vendor names it.
func PriceOf(serverType string) (Price, bool) {
	price, known := map[string]Price{
		"M2-M":  {17, 115_00},
		"M2-L":  {21, 139_00},
		"M4-S":  {22, 149_00},
		"M4-M":  {29, 199_00},
		"M4-XL": {49, 335_00},
	}[strings.ToUpper(serverType)]
	return price, known
}
