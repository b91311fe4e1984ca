// Name of the gRPC metadata in which a caller names itself for the audit record. This is an
// unproven claim. Values are printable ASCII without blanks; other bytes, and '%', are
// percent-encoded as in a URL.
#ifndef COMMON_USER_METADATA_H_
#define COMMON_USER_METADATA_H_

namespace paceline {

inline constexpr char kUserMetadata[] = "paceline-user";

}  // namespace paceline

#endif  // COMMON_USER_METADATA_H_
