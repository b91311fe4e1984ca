// Keys of the state store about the store itself. Values are text, and numbers are decimal.
#ifndef CONTROLLER_STORE_META_KEYS_H_
#define CONTROLLER_STORE_META_KEYS_H_

namespace paceline {

// UUID of the cluster, made with the store.
inline constexpr char kClusterIdKey[] = "meta/cluster_id";
// How often a controller has opened the store; after a restoration, counted from its number.
inline constexpr char kStartsKey[] = "meta/starts";
// Number of a restoration (state_file.h) after which no controller has started yet. With etcd a
// person sets it (docs/ha.md).
inline constexpr char kRestoredKey[] = "meta/restored";
// Number of the last restoration; kept for good.
inline constexpr char kLastRestoredKey[] = "meta/last_restored";

}  // namespace paceline

#endif  // CONTROLLER_STORE_META_KEYS_H_
