// Overrides the C library's getnameinfo in programs that link this: it formats addresses as numbers
// and never looks them up.
//
// c10d logs names for both ends of its connections, so it asks a name server about addresses that
// no hosts file has (::ffff:10.0.0.1). If the server does not answer, each connection of a rank
// takes seconds, at each start and each recovery.
#include <dlfcn.h>
#include <netdb.h>

extern "C" int getnameinfo(const sockaddr* address, socklen_t length, char* host,
                           socklen_t host_size, char* service, socklen_t service_size, int flags) {
  using Function = decltype(&::getnameinfo);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getnameinfo"));
  return next(address, length, host, host_size, service, service_size,
              flags | NI_NUMERICHOST | NI_NUMERICSERV);
}
