// Random identifiers.
#ifndef COMMON_UUID_H_
#define COMMON_UUID_H_

#include <cstdint>
#include <string>

namespace paceline {

// Returns 64 bits from the system's source of randomness.
uint64_t RandomBits();

// A random (version 4) UUID, as in "0b4c9f0e-3f52-4c1e-9a51-2f8b8a4e6d11".
std::string NewUuid();

}  // namespace paceline

#endif  // COMMON_UUID_H_
