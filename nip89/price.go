package nip89

import (
	"math"
	"strconv"
	"strings"

	"guild"
)

// readPrice reads a price in text form: a number and optionally its unit, or a phrase.
func (h *Handler) readPrice(words []string) {
	unit := "msat"
	if len(words) > 1 {
		unit = words[1]
	}
	if price, ok := amount(words[0], unit); ok {
		h.Price = price
	} else {
		h.PriceText = strings.Join(words, " ")
	}
}

// amount reads a price of so many units: msat or sat, also in the plural and in capitals.
func amount(number, unit string) (guild.Msat, bool) {
	price, err := strconv.ParseUint(strings.TrimSpace(number), 10, 53)
	if err != nil {
		return 0, false
	}
	switch strings.TrimSuffix(strings.ToLower(unit), "s") {
	case "msat", "millisat", "millisatoshi":
		return guild.Msat(price), true
	case "sat", "satoshi":
		return guild.Msat(price) * 1000, price <= math.MaxInt64/1000
	}
	return 0, false
}

// readPricing reads the member pricing of the content in the forms that are in use: a text; an object with prices per
// job or by usage (the OpenAgents surface); and an object that has a price for each kind, which 2020117 writes in sats.
func (h *Handler) readPricing(fields object) {
	for _, text := range fields.words("pricing") {
		if words := strings.Fields(text); len(words) == 2 {
			h.readPrice(words)
		} else {
			h.readPrice([]string{text})
		}
	}
	fields.inside("pricing", func(o object) {
		take(o, "text", &h.PriceText)
		o.takeMsat("per_job_msats", &h.Price)
		o.takeMsat("input_tokens_per_1k_msats", &h.Rates.InputPer1k)
		o.takeMsat("output_tokens_per_1k_msats", &h.Rates.OutputPer1k)
		o.takeMsat("sandbox_per_minute_msats", &h.Rates.SandboxPerMinute)
		if price, ok := o.takePrice(); ok && h.Price == 0 {
			h.Price = price
		}
		for name, raw := range o {
			kind, err := strconv.ParseUint(name, 10, 16)
			if err != nil || len(h.Prices) >= MaxWords {
				continue
			}
			price, ok := amount(unquoted(raw), "sat")
			if one := members(raw); one != nil {
				price, ok = one.takePrice()
			} else if words := strings.Fields(unquoted(raw)); len(words) == 2 {
				price, ok = amount(words[0], words[1])
			}
			if ok {
				if h.Prices == nil {
					h.Prices = map[int]guild.Msat{}
				}
				h.Prices[int(kind)] = price
				delete(o, name)
			}
		}
	})
}

// takePrice removes and returns a price with its unit, which is sats if none is named: {"amount": 10, "unit": "sats"}.
func (o object) takePrice() (guild.Msat, bool) {
	unit := "sat"
	for _, name := range []string{"unit", "currency"} {
		take(o, name, &unit)
	}
	for _, name := range []string{"amount", "price", "per_job", "per_request"} {
		if price, ok := amount(unquoted(o[name]), unit); ok {
			delete(o, name)
			return price, true
		}
	}
	return 0, false
}

// unquoted returns the text of a JSON string, and any other JSON as it is.
func unquoted(raw []byte) string {
	if s, ok := stringOf(raw); ok {
		return s
	}
	return string(raw)
}
