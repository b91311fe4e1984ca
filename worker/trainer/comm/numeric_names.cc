// Overrides the C library's getnameinfo in the program that links this: addresses are not looked
// up, they are written as numbers.
//
// c10d names both ends of each of its connections for its log, which asks a name server about
// addresses that no hosts file has (::ffff:10.0.0.1). Where that server does not answer, each
// connection of a rank takes seconds: with it every start, and every recovery.
#include <dlfcn.h>
#include <netdb.h>

extern "C" int getnameinfo(const sockaddr* address, socklen_t length, char* host,
                           socklen_t host_size, char* service, socklen_t service_size, int flags) {
  using Function = decltype(&::getnameinfo);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getnameinfo"));
  return next(address, length, host, host_size, service, service_size,
              flags | NI_NUMERICHOST | NI_NUMERICSERV);
}
