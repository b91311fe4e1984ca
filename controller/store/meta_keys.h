// Keys of the state store about the store itself. Values are text, numbers decimal.
#ifndef CONTROLLER_STORE_META_KEYS_H_
#define CONTROLLER_STORE_META_KEYS_H_

namespace paceline {

// UUID of the cluster, made with the store.
inline constexpr char kClusterIdKey[] = "meta/cluster_id";
// How often a controller has opened the store. After a restoration it goes on from its number.
inline constexpr char kStartsKey[] = "meta/starts";
// A backup was put back and no controller has started since: the number of the restoration
// (state_file.h). In etcd a person puts it there (docs/ha.md).
inline constexpr char kRestoredKey[] = "meta/restored";
// The number of the last restoration, for good.
inline constexpr char kLastRestoredKey[] = "meta/last_restored";

}  // namespace paceline

#endif  // CONTROLLER_STORE_META_KEYS_H_
