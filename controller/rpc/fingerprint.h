// What tells a repeated request from another one with the same id.
#ifndef CONTROLLER_RPC_FINGERPRINT_H_
#define CONTROLLER_RPC_FINGERPRINT_H_

#include <cstdint>
#include <string>

namespace paceline {

// FNV-1a: must be the same in every build, since it is stored.
inline uint64_t Fingerprint(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace paceline

#endif  // CONTROLLER_RPC_FINGERPRINT_H_
