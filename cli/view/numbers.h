// Formats quantities for people.
#ifndef CLI_VIEW_NUMBERS_H_
#define CLI_VIEW_NUMBERS_H_

#include <cstdint>
#include <string>

#include "common/core/bytes_text.h"

namespace paceline {

// "0.4 s", "12 s", "3 min 05 s", "2 h 03 min", "3 d 4 h". Negative or not finite: "-".
std::string DurationText(double seconds);

// The same, but precise below a second: "12 ms", "0.93 s".
std::string ShortDurationText(double seconds);

// "0.1234", "1.2e-05"; not finite: "nan", "inf".
std::string LossText(double loss);
// The same; empty where the loss is not known. It is exactly 0 then, as of a watched script.
std::string KnownLossText(double loss);

// "0.53", "12.3", "1234".
std::string RateText(double per_second);

// "12.3 GFLOP/s", "247 TFLOP/s".
std::string FlopRateText(double per_second);

// "97.8 %".
std::string PercentText(double share);

}  // namespace paceline

#endif  // CLI_VIEW_NUMBERS_H_
