// Validators for values of flags, with clear messages: "--ranks: 0 is not allowed; give a whole
// number of at least 1".
#ifndef CLI_VERBS_PROGRAM_VALUE_CHECK_H_
#define CLI_VERBS_PROGRAM_VALUE_CHECK_H_

#include <cstdint>
#include <limits>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"

namespace paceline {

// `most` must fit the flag's type.
CLI::Validator WholeNumber(int64_t least, int64_t most = std::numeric_limits<int32_t>::max());
CLI::Validator Number(double least, double most = std::numeric_limits<double>::infinity());

// Converts seconds, or time spans such as "10m", "1h30m", "500ms", to seconds.
CLI::Validator Seconds(double least, double most = std::numeric_limits<double>::infinity());

// A path that is meant literally: without anything that only a shell expands.
CLI::Validator PlainPath();

// Converts sizes such as "500MB" to bytes (uint64_t, above 0). Letters may be upper or lower case.
CLI::Validator Size();

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_VALUE_CHECK_H_
