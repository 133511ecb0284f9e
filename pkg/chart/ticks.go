package chart

import (
	"math"
	"strconv"
)

// Tick is a mark of an axis. A tick with a label is longer and has a line across the chart.
type Tick struct {
	Value float64
	Label string
}

// Ticker returns the ticks of an axis that reaches from low to high.
type Ticker func(low, high float64) []Tick

// label formats a value, with an exponent if it would have more than 20 characters.
func label(v float64) string {
	if text := strconv.FormatFloat(v, 'f', -1, 64); len(text) <= 20 {
		return text
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// maxLabels is the maximum number of ticks of an axis that have a label.
const maxLabels = 10

// Decades marks a logarithmic axis at 1 to 9 times each power of ten. The ticks at 1, 2 and 5 times have a
// label, or only the powers of ten if that would be more than maxLabels.
func Decades(low, high float64) []Tick {
	var ticks, all, tens []Tick
	for e := int(math.Floor(math.Log10(low))); e <= int(math.Ceil(math.Log10(high))); e++ {
		for digit := 1; digit < 10; digit++ {
			value := decimal(digit, e)
			if value < low || value > high {
				continue
			}
			ticks = append(ticks, Tick{Value: value})
			t := Tick{Value: value, Label: label(value)}
			switch digit {
			case 1:
				tens = append(tens, t)
				fallthrough
			case 2, 5:
				all = append(all, t)
			}
		}
	}
	return append(ticks, labelled(low, high, all, tens)...)
}

// labelled returns the first list that has 2 to maxLabels ticks. If there is none, it returns evenly spaced
// ticks for an axis shorter than a decade, and the two ends of a longer axis.
func labelled(low, high float64, lists ...[]Tick) []Tick {
	for _, ticks := range lists {
		if len(ticks) > 1 && len(ticks) <= maxLabels {
			return ticks
		}
	}
	if high < 10*low {
		return Even(low, high)
	}
	var ends []Tick
	for _, v := range []float64{low, high} {
		ends = append(ends, Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 4, 64)})
	}
	return ends
}

// Even marks a linear axis at the multiples of a round number: 1, 2 or 5 times a power of ten. It uses the
// smallest such number that gives at most maxLabels ticks. There are at least four ticks.
func Even(low, high float64) []Tick {
	for e := int(math.Floor(math.Log10(high-low))) - 1; ; e++ {
		for _, digit := range []int{1, 2, 5} {
			step := decimal(digit, e)
			first, last := int(math.Ceil(low/step)), int(math.Floor(high/step))
			var ticks []Tick
			for n := first; n <= last && len(ticks) <= maxLabels; n++ {
				value := decimal(n*digit, e)
				if value >= low && value <= high { // the quotients are rounded
					ticks = append(ticks, Tick{Value: value, Label: label(value)})
				}
			}
			if len(ticks) <= maxLabels {
				return ticks
			}
		}
	}
}

// decimal returns n·10^e. It parses the number, since a product with a rounded power of ten would be rounded twice.
func decimal(n, e int) float64 {
	value, _ := strconv.ParseFloat(strconv.Itoa(n)+"e"+strconv.Itoa(e), 64)
	return value
}

// Powers marks a logarithmic axis at the powers of two. At most maxLabels of them have a label, such
// as 64, 4096 and 1048576 or, if bytes is set, 64, 4K and 1M.
func Powers(bytes bool) Ticker {
	return func(low, high float64) []Tick {
		var ticks, all []Tick
		first, last := int(math.Ceil(math.Log2(low))), int(math.Floor(math.Log2(high)))
		every := max(1, (last-first+maxLabels)/maxLabels)
		for e := first; e <= last; e++ {
			t := Tick{Value: math.Ldexp(1, e)}
			ticks = append(ticks, t)
			if e%every == 0 {
				t.Label = label(t.Value)
				if bytes && e >= 0 && e < 63 {
					t.Label = Size(1 << e)
				}
				all = append(all, t)
			}
		}
		return append(ticks, labelled(low, high, all)...)
	}
}

// units are the suffixes of sizes in flags, each 1024 times the previous one.
var units = []string{"", "K", "M", "G", "T"}

// Size formats n bytes in the notation of flags, in the largest unit that keeps the number whole.
func Size(n int64) string {
	unit := 0
	for ; n > 0 && n%1024 == 0 && unit < len(units)-1; unit++ {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + units[unit]
}
