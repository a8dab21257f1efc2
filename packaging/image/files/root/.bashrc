# Interactive shell: coloured prompt and listings.
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth HISTSIZE=5000 HISTFILESIZE=10000
shopt -s histappend checkwinsize
PS1='\[\e[1;34m\]\w\[\e[0m\] \[\e[1;32m\]\$\[\e[0m\] '
case $TERM in xterm*) PS1='\[\e]0;\w\a\]'$PS1 ;; esac
alias ls='ls --color=auto' ll='ls -l' grep='grep --color=auto'
# The default of green blocks for shared folders is hard to read.
export LS_COLORS='di=1;34:ln=1;36:ex=1;32:tw=1;34:ow=1;34:st=1;34:or=1;31:so=1;35:pi=33:bd=1;33:cd=1;33'
