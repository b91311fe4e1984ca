// The version of all our programs; they are released together.
#ifndef COMMON_VERSION_H_
#define COMMON_VERSION_H_

namespace paceline {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace paceline

#endif  // COMMON_VERSION_H_
