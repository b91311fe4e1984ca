// Converts the levels of common/log.h to and from the wire, where the first value means none.
#ifndef COMMON_LOG_LEVEL_H_
#define COMMON_LOG_LEVEL_H_

#include "common/log.h"
#include "proto/log_level.pb.h"

namespace paceline {

inline v1::LogLevel ToProto(LogLevel level) {
  return static_cast<v1::LogLevel>(static_cast<int>(level) + 1);
}

// Returns `otherwise` for none and for unknown numbers.
inline LogLevel FromProto(v1::LogLevel level, LogLevel otherwise) {
  const bool known = level >= v1::LOG_LEVEL_DEBUG && level <= v1::LOG_LEVEL_ERROR;
  return known ? static_cast<LogLevel>(level - 1) : otherwise;
}

}  // namespace paceline

#endif  // COMMON_LOG_LEVEL_H_
