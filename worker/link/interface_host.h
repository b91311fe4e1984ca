// The address of this machine at which a trainer's store listens. The trainer and the daemon, which
// reports it to others, find the same one.
#ifndef WORKER_LINK_INTERFACE_HOST_H_
#define WORKER_LINK_INTERFACE_HOST_H_

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>

namespace paceline {

// Returns a device's ("eth0") first IPv4 address, else its first IPv6 one beyond the link; nothing
// when it has neither. Any other text is an address or host name and is returned as it is.
inline std::optional<std::string> InterfaceHost(const std::string& interface) {
  if (::if_nametoindex(interface.c_str()) == 0) return interface;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  std::optional<std::string> host;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = all; one != nullptr && !host.has_value(); one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family ||
          interface != one->ifa_name) {
        continue;
      }
      const auto* const six = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      char text[NI_MAXHOST];
      if (::getnameinfo(one->ifa_addr, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0) {
        host = text;
      }
    }
  }
  ::freeifaddrs(all);
  return host;
}

// The inverse: returns the name of the device that has this address; a device's own name as is;
// empty when there is none.
inline std::string InterfaceDevice(const std::string& interface) {
  if (interface.empty() || ::if_nametoindex(interface.c_str()) != 0) return interface;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string device;
  for (const ifaddrs* one = all; one != nullptr && device.empty(); one = one->ifa_next) {
    const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ifa_addr, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0 &&
        interface == text) {
      device = one->ifa_name;
    }
  }
  ::freeifaddrs(all);
  return device;
}

}  // namespace paceline

#endif  // WORKER_LINK_INTERFACE_HOST_H_
